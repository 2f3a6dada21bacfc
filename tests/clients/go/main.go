// Objects through client-go: typed clients in protobuf, the dynamic client, a shared informer, apply, a lease.
//
// Arguments: group, version, namespace, plural. Prints a line of JSON for each step.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const patience = 2 * time.Minute

func say(step ...any) {
	line, err := json.Marshal(step)
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	resource := schema.GroupVersionResource{Group: os.Args[1], Version: os.Args[2], Resource: os.Args[4]}
	namespace := os.Args[3]
	typed(ctx, config, namespace)
	custom(ctx, config, resource, namespace)
	elected(ctx, config, namespace)
}

// typed asks in protobuf, as controllers do for kinds that client-go knows.
func typed(ctx context.Context, config *rest.Config, namespace string) {
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(binary)
	must(err)
	maps := client.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": "red"},
	}, metav1.CreateOptions{})
	must(err)
	made.Data["color"] = "blue"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	must(err)
	found, err := maps.Get(ctx, "settings", metav1.GetOptions{})
	must(err)
	say("config map", found.Data)
	_, err = maps.Update(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", ResourceVersion: made.ResourceVersion},
	}, metav1.UpdateOptions{})
	say("stale update", apierrors.IsConflict(err))
}

// custom follows the life of an object through an informer.
func custom(ctx context.Context, config *rest.Config, resource schema.GroupVersionResource, namespace string) {
	client, err := dynamic.NewForConfig(config)
	must(err)
	objects := client.Resource(resource).Namespace(namespace)
	events := make(chan []any, 16)
	size := func(object any) any {
		value, _, _ := unstructured.NestedInt64(object.(*unstructured.Unstructured).Object, "spec", "size")
		return value
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	informer := factory.ForResource(resource).Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { events <- []any{"added", size(object)} },
		UpdateFunc: func(_, object any) { events <- []any{"updated", size(object)} },
		DeleteFunc: func(object any) { events <- []any{"deleted", size(object)} },
	})
	must(err)
	factory.Start(ctx.Done())
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		say("synced", synced)
	}
	expect := func() {
		select {
		case event := <-events:
			say(event...)
		case <-ctx.Done():
			must(ctx.Err())
		}
	}
	apply := func(size int64, manager string, force bool) error {
		_, err := objects.Apply(ctx, "a", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource.GroupVersion().String(), "kind": "Gadget",
			"metadata": map[string]any{"name": "a", "namespace": namespace},
			"spec":     map[string]any{"size": size},
		}}, metav1.ApplyOptions{FieldManager: manager, Force: force})
		return err
	}
	must(apply(1, "one", false))
	expect()
	say("conflict", apierrors.IsConflict(apply(2, "two", false)))
	must(apply(2, "two", true))
	expect()
	_, err = objects.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":5000}}`), metav1.PatchOptions{})
	say("invalid", apierrors.IsInvalid(err))
	must(objects.Delete(ctx, "a", metav1.DeleteOptions{}))
	expect()
	_, err = objects.Get(ctx, "a", metav1.GetOptions{})
	say("not found", apierrors.IsNotFound(err))
}

// elected takes a lease, as one of several controllers does, and gives it back.
func elected(ctx context.Context, config *rest.Config, namespace string) {
	client, err := kubernetes.NewForConfig(config)
	must(err)
	leading, release := context.WithCancel(ctx)
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: "election", Namespace: namespace},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
	}
	leaderelection.RunOrDie(leading, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true,
		LeaseDuration: 60 * time.Second, RenewDeadline: 40 * time.Second, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say("leading"); release() },
			OnStoppedLeading: func() { say("released") },
		},
	})
}
