import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.eclipse.jetty.server.Server;
import org.elasticmq.rest.sqs.SQSRestServer;
import org.elasticmq.rest.sqs.SQSRestServerBuilder;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBRequestHandler;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBServerHandler;

/**
 * DynamoDB Local and ElasticMQ in one process, on loopback only, on ports that the system picks.
 *
 * <p>DynamoDB Local's own main listens on every address of the machine; its request handler does not mind where it is
 * mounted. Writes its process id and both ports into the file that it is given, which appears whole, then lives until
 * its standard input ends: it ends with the process that uses it.
 */
public final class Engines {
    public static void main(String[] arguments) throws Exception {
        Server dynamodb = new Server(new InetSocketAddress("127.0.0.1", 0));
        LocalDynamoDBRequestHandler requests = new LocalDynamoDBRequestHandler(0, true, null, true, false);
        dynamodb.setHandler(new LocalDynamoDBServerHandler(requests, null));
        dynamodb.start();
        SQSRestServer sqs = SQSRestServerBuilder.withInterface("127.0.0.1").withDynamicPort().start();
        int sqsPort = sqs.waitUntilStarted().localAddress().getPort();
        Path ports = Path.of(arguments[0]);
        Path draft = ports.resolveSibling(ports.getFileName() + ".draft");
        Files.writeString(draft, ProcessHandle.current().pid() + " " + dynamodb.getURI().getPort() + " " + sqsPort);
        Files.move(draft, ports, StandardCopyOption.ATOMIC_MOVE);
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }
}
