// The life of an object with fabric8's client: java -cp JARS Objects.java GROUP VERSION NAMESPACE PLURAL. It prints a line a step.
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class Objects {
    public static void main(String[] arguments) throws Exception {
        var context = new ResourceDefinitionContext.Builder()
                .withGroup(arguments[0]).withVersion(arguments[1]).withPlural(arguments[3]).withKind("Gadget")
                .withNamespaced(true).build();
        var events = new LinkedBlockingQueue<String>();
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            var gadgets = client.genericKubernetesResources(context).inNamespace(arguments[2]);
            var gadget = new GenericKubernetesResource();
            gadget.setApiVersion(arguments[0] + "/" + arguments[1]);
            gadget.setKind("Gadget");
            gadget.setMetadata(new ObjectMetaBuilder().withName("a").withNamespace(arguments[2]).build());
            gadget.setAdditionalProperties(Map.of("spec", Map.of("size", 1)));
            System.out.println("created " + gadgets.resource(gadget).create().getMetadata().getGeneration());
            try (var watch = gadgets.watch(new Watcher<GenericKubernetesResource>() {
                @Override
                public void eventReceived(Action action, GenericKubernetesResource found) {
                    events.add(action + " " + found.getMetadata().getName());
                }

                @Override
                public void onClose(WatcherException cause) {
                    events.add("closed");
                }
            })) {
                System.out.println("watched " + events.poll(60, TimeUnit.SECONDS));
                var merge = PatchContext.of(PatchType.JSON_MERGE);
                var patched = gadgets.withName("a").patch(merge, "{\"spec\":{\"size\":2}}");
                System.out.println("patched " + patched.getMetadata().getGeneration());
                System.out.println("watched " + events.poll(60, TimeUnit.SECONDS));
                System.out.println("listed " + gadgets.list().getItems().size());
                try {
                    gadgets.resource(gadget).create();
                } catch (KubernetesClientException error) {
                    System.out.println("refused " + error.getCode());
                }
                gadgets.withName("a").delete();
                System.out.println("watched " + events.poll(60, TimeUnit.SECONDS));
            }
            System.out.println("gone " + (gadgets.withName("a").get() == null));
        }
    }
}
