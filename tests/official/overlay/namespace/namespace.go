// Package namespace takes the place of kube-controller-manager's controller: the server under test empties namespaces.
package namespace

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

type NamespaceController struct{}

func NewNamespaceController(context.Context, clientset.Interface, metadata.Interface,
	func() ([]*metav1.APIResourceList, error), coreinformers.NamespaceInformer, time.Duration,
	v1.FinalizerName) *NamespaceController {
	return &NamespaceController{}
}

func (*NamespaceController) Run(context.Context, int) {}
