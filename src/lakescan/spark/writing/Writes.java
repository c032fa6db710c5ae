package lakescan;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.DataTypes;

/** Writes by Python data sources whose rows Spark does not measure. Compiled by Janino: no lambdas, raw collections. */
public class Writes {
  /** The optimizer rule: asks Python for the bound of a write, and lifts Spark's limit for its job. */
  public static class Rule extends org.apache.spark.sql.catalyst.rules.Rule {
    private final java.util.function.Function bounds;
    private final String owner;

    public Rule(java.util.function.Function bounds, String owner) {
      this.bounds = bounds;
      this.owner = owner;
    }

    public String owner() {
      return owner;
    }

    public TreeNode apply(TreeNode plan) {
      if (!(plan instanceof V2WriteCommand)) {
        return plan;
      }
      Object[] parts = new Object[plan.productArity()];
      int place = -1;
      for (int i = 0; i < parts.length; i++) {
        parts[i] = plan.productElement(i);
        if (parts[i] instanceof scala.Some && ((scala.Some) parts[i]).get() instanceof PythonWrite) {
          place = i;
        }
      }
      if (place < 0) {
        return plan;
      }
      PythonWrite write = (PythonWrite) ((scala.Some) parts[place]).get();
      LogicalPlan query = ((V2WriteCommand) plan).query();
      try {
        if (!isOwn((PythonDataSourceV2) value(write, "ds"))) {
          return plan;
        }
        Map request = new HashMap();
        request.put("session", org.apache.spark.sql.classic.SparkSession.active());
        request.put("query", query);
        Object answer = bounds.apply(request);
        if (!(answer instanceof Map)) {
          return plan;
        }
        Map bound = (Map) answer;
        LogicalPlan filled = (LogicalPlan) bound.get("query");
        if (filled != null) {
          LogicalPlan table = (LogicalPlan) ((V2WriteCommand) plan).table();
          Object last = filled.output().last();
          for (int i = 0; i < parts.length; i++) {
            parts[i] = parts[i] == query ? filled : parts[i] == table ? widened(table, last) : parts[i];
          }
          write = filled(write, (String) bound.get("piece"));
        }
        parts[place] = new scala.Some(new Unmeasured(write, (Map) bound.get("properties")));
        LogicalPlan bounded = (LogicalPlan) plan.makeCopy(parts);
        return bounded.resolved() ? bounded : plan;
      } catch (Exception unknown) { // Another Spark, or Python has ended: Spark measures.
        return plan;
      }
    }

    /** Whether the data source is lakescan's: others would take fillers for rows. */
    private static boolean isOwn(PythonDataSourceV2 source) {
      scala.collection.Iterator pickled = source.source().dataSourceCls().command().iterator();
      StringBuilder text = new StringBuilder();
      while (pickled.hasNext()) {
        text.append((char) (((Number) pickled.next()).byteValue() & 0xff));
      }
      return text.indexOf("lakescan.spark.source.data_source") >= 0;
    }

    /** The relation of the table with a further column: Spark compares its columns with those of the rows. */
    private static Object widened(LogicalPlan table, Object column) {
      Object[] parts = new Object[table.productArity()];
      for (int i = 0; i < parts.length; i++) {
        parts[i] = table.productElement(i);
        if (parts[i] == table.output()) {
          List columns = new ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(table.output()));
          columns.add(column);
          parts[i] = scala.jdk.javaapi.CollectionConverters.asScala(columns).toSeq();
        }
      }
      return table.makeCopy(parts);
    }

    private static PythonWrite filled(PythonWrite write, String piece) throws Exception {
      LogicalWriteInfoImpl info = (LogicalWriteInfoImpl) value(write, "info");
      return new PythonWrite(
        (PythonDataSourceV2) value(write, "ds"),
        (String) value(write, "shortName"),
        info.copy(
          info.queryId(),
          info.schema().add(piece, DataTypes.IntegerType),
          info.options(),
          info.rowIdSchema(),
          info.metadataSchema()),
        ((Boolean) value(write, "isTruncate")).booleanValue());
    }

    private static Object value(Object owner, String name) throws Exception {
      Field field = owner.getClass().getDeclaredField(name);
      field.setAccessible(true);
      return field.get(owner);
    }
  }

  /** A write whose job has local properties. */
  public static class Unmeasured implements Write {
    private final Write write;
    private final Map properties;

    public Unmeasured(Write write, Map properties) {
      this.write = write;
      this.properties = properties;
    }

    public String description() {
      return write.description();
    }

    public BatchWrite toBatch() {
      return new UnmeasuredBatch(write.toBatch(), properties);
    }

    public StreamingWrite toStreaming() {
      return write.toStreaming();
    }

    public CustomMetric[] supportedCustomMetrics() {
      return write.supportedCustomMetrics();
    }

    public String toString() {
      return write.toString();
    }
  }

  /** Sets the properties between making the tasks' writers and the commit: Spark runs the job in the same thread. */
  public static class UnmeasuredBatch implements BatchWrite {
    private final BatchWrite batch;
    private final Map properties;
    private final Map before = new HashMap();

    UnmeasuredBatch(BatchWrite batch, Map properties) {
      this.batch = batch;
      this.properties = properties;
    }

    private static SparkContext context() {
      return org.apache.spark.sql.classic.SparkSession.active().sparkContext();
    }

    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      DataWriterFactory factory = batch.createBatchWriterFactory(info);
      Object[] names = properties.keySet().toArray();
      for (int i = 0; i < names.length; i++) {
        before.put(names[i], context().getLocalProperty((String) names[i]));
        context().setLocalProperty((String) names[i], (String) properties.get(names[i]));
      }
      return factory;
    }

    private void restore() {
      Object[] names = before.keySet().toArray();
      for (int i = 0; i < names.length; i++) {
        context().setLocalProperty((String) names[i], (String) before.remove(names[i]));
      }
    }

    public boolean useCommitCoordinator() {
      return batch.useCommitCoordinator();
    }

    public void onDataWriterCommit(WriterCommitMessage message) {
      batch.onDataWriterCommit(message);
    }

    public void commit(WriterCommitMessage[] messages) {
      restore();
      batch.commit(messages);
    }

    public void abort(WriterCommitMessage[] messages) {
      restore();
      batch.abort(messages);
    }
  }
}
