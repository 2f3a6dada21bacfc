# kubeclient (Ruby): discovery, create, watch, merge patch, list with a selector, delete. Each step is a line of JSON.
# ruby objects.rb GROUP VERSION NAMESPACE PLURAL, with KUBECONFIG in the environment
require 'json'
require 'kubeclient'

group, version, namespace, plural = ARGV
config = Kubeclient::Config.read(ENV['KUBECONFIG'])
context = config.context
client = Kubeclient::Client.new(
  "#{context.api_endpoint}/apis/#{group}", version,
  ssl_options: context.ssl_options, auth_options: context.auth_options
)
def say(*event)
  puts JSON.generate(event)
  $stdout.flush
end

# Its methods are made of what discovery tells: create_gadget, get_gadgets, watch_gadgets.
entity = client.discover && client.instance_variable_get(:@entities).values.find { |e| e.resource_name == plural }
one = entity.method_names[0]
many = entity.method_names[1]
say('discovered', entity.entity_type)
def object(group, version, kind, namespace, name, size)
  Kubeclient::Resource.new(
    apiVersion: "#{group}/#{version}", kind: kind, metadata: { name: name, namespace: namespace, labels: { of: 'ruby' } },
    spec: { size: size }
  )
end
made = client.public_send("create_#{one}", object(group, version, entity.entity_type, namespace, 'a', 1))
say('created', made.metadata.name, made.spec['size'])
watch = client.public_send(
  "watch_#{many}", namespace: namespace, resource_version: made.metadata.resourceVersion
)
events = Queue.new
thread = Thread.new { watch.each { |notice| events << [notice.type, notice.object.metadata.name] } }
patched = client.public_send("merge_patch_#{one}", 'a', { spec: { size: 2 } }, namespace)
say('patched', patched.spec['size'])
say('watched', *events.pop)
found = client.public_send("get_#{many}", namespace: namespace, label_selector: 'of=ruby')
say('listed', found.map { |item| item.metadata.name })
begin
  client.public_send("create_#{one}", object(group, version, entity.entity_type, namespace, 'a', 1))
rescue Kubeclient::HttpError => e
  say('refused', e.error_code, e.message)
end
client.public_send("delete_#{one}", 'a', namespace)
say('watched', *events.pop)
watch.finish
thread.join
begin
  client.public_send("get_#{one}", 'a', namespace)
rescue Kubeclient::ResourceNotFoundError => e
  say('gone', e.error_code)
end
