// Package testing takes the place of Kubernetes' package of this name: it starts no server. A test server is a tenant of
// a server that runs already, made by TENANT_COMMAND, which prints the path of a kubeconfig of its administrator.
//
// Two servers with one storage prefix are one tenant, as two kube-apiservers with one etcd are one cluster.
package testing

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

type TearDownFunc func()

type TestServerInstanceOptions struct {
	SkipHealthzCheck bool
	EnableCertAuth   bool
	ProxyCA          *ProxyCA
	BinaryVersion    string
	RequestTimeout   time.Duration
}

type ProxyCA struct {
	ProxySigningCert *x509.Certificate
	ProxySigningKey  *rsa.PrivateKey
}

type TestServer struct {
	ClientConfig      *rest.Config
	ServerOpts        *options.ServerRunOptions
	TearDownFn        TearDownFunc
	TmpDir            string
	EtcdClient        *clientv3.Client
	EtcdStoragePrefix string
}

type Logger interface {
	Helper()
	Errorf(format string, args ...interface{})
	Fatalf(format string, args ...interface{})
	Logf(format string, args ...interface{})
	Cleanup(func())
}

func NewDefaultTestServerOptions() *TestServerInstanceOptions {
	return &TestServerInstanceOptions{EnableCertAuth: true}
}

func StartTestServer(t Logger, _ *TestServerInstanceOptions, flags []string, storage *storagebackend.Config) (TestServer, error) {
	t.Helper()
	prefix := ""
	if storage != nil {
		prefix = storage.Prefix
	}
	config, err := TenantConfig(prefix, strings.Contains(strings.Join(flags, " "), "--authorization-mode"))
	return TestServer{
		ClientConfig:      config,
		ServerOpts:        options.NewServerRunOptions(),
		TearDownFn:        func() {},
		EtcdStoragePrefix: prefix,
	}, err
}

func StartTestServerOrDie(t Logger, instance *TestServerInstanceOptions, flags []string, storage *storagebackend.Config) *TestServer {
	t.Helper()
	server, err := StartTestServer(t, instance, flags, storage)
	if err != nil {
		t.Fatalf("no tenant: %v", err)
	}
	return &server
}

func GetEtcdClients(storagebackend.TransportConfig) (*clientv3.Client, clientv3.KV, error) {
	return nil, nil, errors.New("there is no etcd")
}

var (
	tenantsLock sync.Mutex
	tenants     = map[string]string{}
)

// TenantConfig returns the administrator's configuration of the tenant of this storage prefix; "" has a new one each time.
// Without authorization everybody may do everything, as with kube-apiserver's default, AlwaysAllow.
func TenantConfig(prefix string, authorizes bool) (*rest.Config, error) {
	tenantsLock.Lock()
	defer tenantsLock.Unlock()
	if path := tenants[prefix]; path != "" {
		return configOf(path)
	}
	out, err := exec.Command(os.Getenv("TENANT_COMMAND")).Output()
	if err != nil {
		return nil, fmt.Errorf("tenant: %w", err)
	}
	path := strings.TrimSpace(string(out))
	config, err := configOf(path)
	if err == nil && !authorizes {
		err = allowAll(config)
	}
	if err == nil && prefix != "" {
		tenants[prefix] = path
	}
	return config, err
}

func configOf(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 1000, 1000
	return config, nil
}

func allowAll(config *rest.Config) error {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(context.TODO(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "always-allow"},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"},
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:unauthenticated"},
		},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	return err
}
