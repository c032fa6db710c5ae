import java.io.*;
import java.nio.file.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

/**
 * Two namenodes, one of them active, behind one name. A line on its input lets it fail over: "to two" by the order of
 * an operator, "kill one" because that one dies; it is started again then, as the standby.
 */
public class HighAvailability {
    public static void main(String[] arguments) throws Exception {
        Path folder = Paths.get(arguments[0]);
        String name = "lake";
        Configuration settings = new Configuration();
        settings.set("hdfs.minidfs.basedir", folder.resolve("dfs").toString());
        settings.setInt("dfs.ha.tail-edits.period", 1);
        MiniDFSNNTopology topology = new MiniDFSNNTopology().addNameservice(new MiniDFSNNTopology.NSConf(name)
            .addNN(new MiniDFSNNTopology.NNConf("one")).addNN(new MiniDFSNNTopology.NNConf("two")));
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).nnTopology(topology).numDataNodes(1).build();
        cluster.transitionToActive(0);
        cluster.waitActive(0);
        Configuration client = new Configuration(false);
        client.set("fs.defaultFS", "hdfs://" + name);
        client.set("dfs.nameservices", name);
        client.set("dfs.ha.namenodes." + name, "one,two");
        client.set("dfs.namenode.rpc-address." + name + ".one", "127.0.0.1:" + cluster.getNameNodePort(0));
        client.set("dfs.namenode.rpc-address." + name + ".two", "127.0.0.1:" + cluster.getNameNodePort(1));
        client.set("dfs.client.failover.proxy.provider." + name,
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider");
        for (String each : new String[] {"core-site.xml", "hdfs-site.xml"}) {
            try (OutputStream out = Files.newOutputStream(folder.resolve(each))) { client.writeXml(out); }
        }
        System.out.println("ready " + name);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            boolean dies = line.startsWith("kill");
            int from = line.equals("to two") || line.equals("kill one") ? 0 : 1;
            if (dies) cluster.shutdownNameNode(from);
            else cluster.transitionToStandby(from);
            cluster.transitionToActive(1 - from);
            if (dies) cluster.restartNameNode(from, false);
            System.out.println("done");
        }
        cluster.shutdown();
        System.exit(0);
    }
}
