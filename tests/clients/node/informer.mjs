// An informer of @kubernetes/client-node; each of its events is printed as one line of JSON.
// node informer.mjs GROUP VERSION NAMESPACE PLURAL MAJOR, with KUBECONFIG in the environment
import * as k8s from '@kubernetes/client-node';

const [group, version, namespace, plural, major] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromDefault();
const objects = config.makeApiClient(k8s.CustomObjectsApi);
// Before version 1, arguments were positional.
const list = () =>
  major === '0'
    ? objects.listNamespacedCustomObject(group, version, namespace, plural)
    : objects.listNamespacedCustomObject({ group, version, namespace, plural });
const informer = k8s.makeInformer(config, `/apis/${group}/${version}/namespaces/${namespace}/${plural}`, list);

const say = (...event) => console.log(JSON.stringify(event));
for (const verb of ['add', 'update', 'delete']) {
  informer.on(verb, (object) => say(verb, object.metadata.name, object.spec.size));
}
informer.on('connect', () => say('connect'));
informer.on('error', (problem) => say('error', String(problem)));
informer.start();
