// Package etcd keeps its data of one object of each resource (data.go) and helpers to make them, without etcd.
package etcd

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

type Resource struct {
	Mapping             *meta.RESTMapping
	HasDeleteCollection bool
}

// GetResources returns the resources that can be created and read.
func GetResources(t *testing.T, lists []*metav1.APIResourceList) []Resource {
	t.Helper()
	var found []Resource
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			verbs := map[string]bool{}
			for _, verb := range resource.Verbs {
				verbs[verb] = true
			}
			if !verbs["create"] || !verbs["get"] {
				continue
			}
			scope := meta.RESTScopeRoot
			if resource.Namespaced {
				scope = meta.RESTScopeNamespace
			}
			found = append(found, Resource{
				Mapping: &meta.RESTMapping{
					Resource:         group.WithResource(resource.Name),
					GroupVersionKind: group.WithKind(resource.Kind),
					Scope:            scope,
				},
				HasDeleteCollection: verbs["deletecollection"],
			})
		}
	}
	return found
}

// JSONToUnstructured returns the object with its kind, and the client of its resource.
func JSONToUnstructured(stub, namespace string, mapping *meta.RESTMapping, client dynamic.Interface) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	object := map[string]any{}
	if err := json.Unmarshal([]byte(stub), &object); err != nil {
		return nil, nil, err
	}
	object["apiVersion"] = mapping.GroupVersionKind.GroupVersion().String()
	object["kind"] = mapping.GroupVersionKind.Kind
	if mapping.Scope == meta.RESTScopeRoot {
		namespace = ""
	}
	return client.Resource(mapping.Resource).Namespace(namespace), &unstructured.Unstructured{Object: object}, nil
}

// CreateTestCRDs creates the definitions, and waits until they are in discovery or, if `established` is enough, established.
func CreateTestCRDs(t *testing.T, client apiextensionsclientset.Interface, established bool, definitions ...*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, definition := range definitions {
		if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(context.TODO(), definition, metav1.CreateOptions{}); err != nil {
			t.Fatalf("definition %s: %v", definition.Name, err)
		}
		if err := wait.PollUntilContextTimeout(context.TODO(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			if !established {
				return CrdExistsInDiscovery(client, definition), nil
			}
			now, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, definition.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			for _, condition := range now.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return true, nil
				}
			}
			return false, nil
		}); err != nil {
			t.Fatalf("definition %s is not served: %v", definition.Name, err)
		}
	}
}

// CrdExistsInDiscovery tells whether every served version is in discovery.
func CrdExistsInDiscovery(client apiextensionsclientset.Interface, definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		list, err := client.Discovery().ServerResourcesForGroupVersion(definition.Spec.Group + "/" + version.Name)
		if err != nil {
			return false
		}
		found := false
		for _, resource := range list.APIResources {
			found = found || resource.Name == definition.Spec.Names.Plural
		}
		if !found {
			return false
		}
	}
	return true
}
