// The life of an object with nothing but the JDK: java JdkClient.java URL CA_FILE TOKEN_FILE GROUP VERSION NAMESPACE PLURAL.
// It prints a line a step. java.net.http is one of the HTTP clients that fabric8's client can use.
import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Iterator;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class JdkClient {
    private final HttpClient http;
    private final String url;
    private final String token;

    JdkClient(String url, Path authority, String token) throws Exception {
        this.url = url;
        this.token = token;
        this.http = HttpClient.newBuilder().sslContext(trusting(authority)).connectTimeout(Duration.ofSeconds(60)).build();
    }

    static SSLContext trusting(Path authority) throws Exception {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (var file = new FileInputStream(authority.toFile())) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        var context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    HttpRequest request(String method, String path, String type, String body) {
        var content = body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body);
        var made = HttpRequest.newBuilder(URI.create(url + path)).timeout(Duration.ofSeconds(120))
                .header("Authorization", "Bearer " + token).header("Accept", "application/json").method(method, content);
        return (body == null ? made : made.header("Content-Type", type)).build();
    }

    HttpResponse<String> send(String method, String path, String type, String body) throws Exception {
        return http.send(request(method, path, type, body), BodyHandlers.ofString());
    }

    Iterator<String> watch(String path) throws Exception {
        HttpResponse<Stream<String>> answer = http.send(request("GET", path, "", null), BodyHandlers.ofLines());
        return answer.body().iterator();
    }

    /** The value of the first member of this name; there is no JSON in the JDK. */
    static String member(String json, String name) {
        var found = Pattern.compile("\"" + name + "\":\\s*\"?([^\",}]*)").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    static String event(Iterator<String> events) {
        var line = events.next();
        return member(line, "type") + " " + member(line, "name");
    }

    public static void main(String[] arguments) throws Exception {
        var client = new JdkClient(arguments[0], Path.of(arguments[1]), Files.readString(Path.of(arguments[2])).strip());
        String root = "/apis/" + arguments[3] + "/" + arguments[4];
        String objects = root + "/namespaces/" + arguments[5] + "/" + arguments[6];
        String json = "application/json";

        var discovery = client.send("GET", root, json, null).body();
        System.out.println("discovered " + discovery.contains("\"name\":\"" + arguments[6] + "\""));
        var body = "{\"apiVersion\":\"%s/%s\",\"kind\":\"Gadget\",\"metadata\":{\"name\":\"a\",\"labels\":{\"from\":\"java\"}},\"spec\":{\"size\":1}}"
                .formatted(arguments[3], arguments[4]);
        var created = client.send("POST", objects, json, body);
        System.out.println("created " + created.statusCode() + " " + member(created.body(), "generation"));
        var list = client.send("GET", objects + "?labelSelector=from%3Djava", json, null).body();
        System.out.println("listed " + (list.split("\"uid\"", -1).length - 1));

        var revision = member(list, "resourceVersion");
        var events = client.watch(objects + "?watch=1&timeoutSeconds=100&resourceVersion=" + revision);
        var patched = client.send("PATCH", objects + "/a", "application/merge-patch+json", "{\"spec\":{\"size\":2}}");
        System.out.println("patched " + patched.statusCode() + " " + member(patched.body(), "generation"));
        System.out.println("watched " + event(events));

        var stale = client.send("PUT", objects + "/a", json, created.body());
        System.out.println("refused " + stale.statusCode() + " " + member(stale.body(), "reason"));
        System.out.println("refused " + client.send("POST", objects, json, body).statusCode());
        var unknown = client.send("GET", objects + "/b", json, null);
        System.out.println("refused " + unknown.statusCode() + " " + member(unknown.body(), "reason"));

        System.out.println("deleted " + client.send("DELETE", objects + "/a", json, null).statusCode());
        System.out.println("watched " + event(events));
        System.exit(0); // the watch is still open
    }
}
