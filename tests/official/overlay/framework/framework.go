// Package framework keeps what tests use of Kubernetes' test/integration/framework, without etcd and kube-apiserver.
package framework

import (
	"context"
	"os"
	"testing"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	kubeapiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	kubeoptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"
)

type TestServerSetup struct {
	ModifyServerRunOptions func(*kubeoptions.ServerRunOptions)
	ModifyServerConfig     func(*controlplane.Config)
}

type TearDownFunc func()

func StartTestServer(_ context.Context, t testing.TB, setup TestServerSetup) (clientset.Interface, *rest.Config, TearDownFunc) {
	t.Helper()
	prefix, authorizes := "", false
	if setup.ModifyServerRunOptions != nil {
		opts := kubeoptions.NewServerRunOptions()
		setup.ModifyServerRunOptions(opts)
		prefix, authorizes = opts.Etcd.StorageConfig.Prefix, len(opts.Authorization.Modes) > 0
	}
	config, err := kubeapiservertesting.TenantConfig(prefix, authorizes)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, config, func() {}
}

func EtcdMain(tests func() int) { os.Exit(tests()) }

func GetEtcdURL() string { return "http://127.0.0.1:0" }

func StartEtcd(_ klog.Logger, tb testing.TB, _ bool) { tb.Skip("needs etcd") }

func RunCustomEtcd(klog.Logger, string, []string) (string, func(), error) {
	return "", func() {}, os.ErrNotExist
}

func DefaultEtcdOptions() *options.EtcdOptions {
	return options.NewEtcdOptions(storagebackend.NewDefaultConfig(uuid.New().String(), nil))
}

func SharedEtcd() *storagebackend.Config { return &DefaultEtcdOptions().StorageConfig }

func DefaultTestServerFlags() []string { return nil }

func CreateNamespaceOrDie(c clientset.Interface, baseName string, t testing.TB) *v1.Namespace {
	t.Helper()
	made, err := c.CoreV1().Namespaces().Create(
		context.TODO(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: baseName}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func DeleteNamespaceOrDie(c clientset.Interface, ns *v1.Namespace, t testing.TB) {
	t.Helper()
	if err := c.CoreV1().Namespaces().Delete(context.TODO(), ns.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
