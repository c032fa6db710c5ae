import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.ResultKind;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.CloseableIterator;

/**
 * Flink in this process: reads one request as a line of JSON, and answers with one. session.py is its client.
 *
 * <p>Requests: {"setup": "CREATE CATALOG ..."} for all later ones; {"sql": [...]} runs statements and returns the rows of
 * the last; {"change": {...}} writes a changelog as one commit; {"start": "..."} runs a statement until {"cancel": id};
 * {"poll": id} returns its rows so far. "streaming" and "conf" are the mode and Flink's settings.
 */
public class FlinkSession {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
  private static final List<String> SETUP = new CopyOnWriteArrayList<>();
  private static final Map<String, Running> RUNNING = new ConcurrentHashMap<>();

  private static class Running {
    TableResult result;
    final List<JsonNode> rows = new CopyOnWriteArrayList<>();
    volatile String error;
    volatile boolean isDone;
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = requests.readLine()) != null; ) {
      ObjectNode answer;
      try {
        answer = answer(JSON.readTree(line));
      } catch (Throwable error) {
        answer = NODES.objectNode().put("error", trace(error));
      }
      answers.println(answer);
    }
    System.exit(0);
  }

  private static ObjectNode answer(JsonNode request) throws Exception {
    ObjectNode answer = NODES.objectNode();
    if (request.has("setup")) {
      SETUP.add(request.get("setup").asText());
      environment(request);
    } else if (request.has("sql")) {
      StreamTableEnvironment tables = environment(request);
      for (JsonNode statement : request.get("sql")) {
        TableResult result = tables.executeSql(statement.asText());
        if (result.getResultKind() == ResultKind.SUCCESS_WITH_CONTENT && !isInsert(statement.asText())) {
          answer.set("rows", rows(result));
        } else {
          result.await();
        }
      }
    } else if (request.has("change")) {
      change(request).await();
    } else if (request.has("start")) {
      Running running = new Running();
      StreamTableEnvironment tables = environment(request);
      if (request.hasNonNull("first")) {
        tables.executeSql(request.get("first").asText());
      }
      running.result = tables.executeSql(request.get("start").asText());
      String id = "job" + RUNNING.size();
      RUNNING.put(id, running);
      watch(running, isInsert(request.get("start").asText()));
      answer.put("job", id);
    } else if (request.has("poll")) {
      Running running = RUNNING.get(request.get("poll").asText());
      ArrayNode rows = answer.putArray("rows");
      running.rows.forEach(rows::add);
      answer.put("isDone", running.isDone).put("failure", running.error);
    } else if (request.has("cancel")) {
      Running running = RUNNING.get(request.get("cancel").asText());
      running.error = "cancelled";
      running.result.getJobClient().orElseThrow().cancel().get(30, TimeUnit.SECONDS);
    } else {
      throw new IllegalArgumentException("unknown request " + request);
    }
    return answer;
  }

  private static StreamTableEnvironment environment(JsonNode request) {
    boolean isStreaming = request.path("streaming").asBoolean(false);
    return tables(StreamExecutionEnvironment.getExecutionEnvironment(settings(request, isStreaming)));
  }

  private static StreamTableEnvironment tables(StreamExecutionEnvironment streams) {
    StreamTableEnvironment tables = StreamTableEnvironment.create(streams);
    SETUP.forEach(tables::executeSql);
    return tables;
  }

  private static Configuration settings(JsonNode request, boolean isStreaming) {
    Configuration conf = new Configuration();
    conf.setString("execution.runtime-mode", isStreaming ? "STREAMING" : "BATCH");
    conf.setString("parallelism.default", "1");
    conf.setString("rest.bind-port", "0");
    conf.setString("table.local-time-zone", "UTC");
    conf.setString("taskmanager.numberOfTaskSlots", "4");
    conf.setString("taskmanager.memory.managed.size", "64m");
    conf.setString("taskmanager.memory.network.min", "32m");
    conf.setString("taskmanager.memory.network.max", "32m");
    conf.setString("table.exec.sink.upsert-materialize", "NONE");
    if (isStreaming) {
      conf.setString("execution.checkpointing.interval", "300ms");
    }
    request.path("conf").properties().forEach(each -> conf.setString(each.getKey(), each.getValue().asText()));
    return conf;
  }

  /** Inserts rows with kinds ("+I", "-U", "+U", "-D") and columns of text, as "select" converts them. */
  private static TableResult change(JsonNode request) throws Exception {
    JsonNode change = request.get("change");
    String[] columns = texts(change.get("columns"));
    TypeInformation<?>[] types = new TypeInformation<?>[columns.length];
    Arrays.fill(types, Types.STRING);
    List<Row> rows = new ArrayList<>();
    for (JsonNode each : change.get("rows")) {
      String[] values = texts(each);
      RowKind kind = Arrays.stream(RowKind.values()).filter(k -> k.shortString().equals(values[0])).findFirst().get();
      rows.add(Row.ofKind(kind, (Object[]) Arrays.copyOfRange(values, 1, values.length)));
    }
    StreamExecutionEnvironment streams = StreamExecutionEnvironment.getExecutionEnvironment(settings(request, true));
    StreamTableEnvironment tables = tables(streams);
    tables.createTemporaryView(
        "changelog", tables.fromChangelogStream(streams.fromData(rows, new RowTypeInfo(types, columns))));
    String hint = change.path("hint").asText("");
    return tables.executeSql(
        "INSERT INTO " + change.get("table").asText() + (hint.isEmpty() ? "" : " /*+ OPTIONS(" + hint + ") */")
            + " SELECT " + change.get("select").asText() + " FROM changelog");
  }

  private static boolean isInsert(String statement) {
    return statement.stripLeading().toUpperCase().startsWith("INSERT");
  }

  private static void watch(Running running, boolean isInsert) {
    Thread thread =
        new Thread(
            () -> {
              try {
                if (isInsert) {
                  running.result.await();
                } else {
                  try (CloseableIterator<Row> rows = running.result.collect()) {
                    rows.forEachRemaining(row -> running.rows.add(values(row)));
                  }
                }
              } catch (Throwable error) {
                running.error = running.error == null ? trace(error) : running.error;
              }
              running.isDone = true;
            });
    thread.setDaemon(true);
    thread.start();
  }

  private static ArrayNode rows(TableResult result) throws Exception {
    ArrayNode found = NODES.arrayNode();
    try (CloseableIterator<Row> rows = result.collect()) {
      rows.forEachRemaining(row -> found.add(values(row)));
    }
    return found;
  }

  private static ArrayNode values(Row row) {
    ArrayNode found = NODES.arrayNode();
    for (int i = 0; i < row.getArity(); i++) {
      found.add(value(row.getField(i)));
    }
    return found;
  }

  /** A value without loss: numbers that JSON would round, and all that it lacks, are texts with a letter in front. */
  private static JsonNode value(Object value) {
    if (value == null) {
      return NODES.nullNode();
    } else if (value instanceof Boolean is) {
      return NODES.booleanNode(is);
    } else if (value instanceof Integer || value instanceof Long || value instanceof Short || value instanceof Byte) {
      return NODES.numberNode(((Number) value).longValue());
    } else if (value instanceof Float number) {
      return NODES.textNode("f" + Integer.toHexString(Float.floatToIntBits(number)));
    } else if (value instanceof Double number) {
      return NODES.textNode("d" + Long.toHexString(Double.doubleToLongBits(number)));
    } else if (value instanceof BigDecimal number) {
      return NODES.textNode("n" + number.toPlainString());
    } else if (value instanceof byte[] bytes) {
      return NODES.textNode("x" + HexFormat.of().formatHex(bytes));
    } else if (value instanceof LocalDate date) {
      return NODES.textNode("D" + date.toEpochDay());
    } else if (value instanceof LocalTime time) {
      return NODES.textNode("T" + time.toNanoOfDay());
    } else if (value instanceof LocalDateTime time) {
      return NODES.textNode("t" + nanoseconds(time.toInstant(ZoneOffset.UTC)));
    } else if (value instanceof Instant time) {
      return NODES.textNode("z" + nanoseconds(time));
    } else if (value instanceof Row row) {
      return values(row);
    } else if (value instanceof Map<?, ?> map) {
      List<JsonNode> entries = new ArrayList<>();
      map.forEach((key, each) -> entries.add(NODES.arrayNode().add(value(key)).add(value(each))));
      entries.sort(Comparator.comparing(Object::toString));
      ArrayNode found = NODES.arrayNode();
      entries.forEach(found::add);
      return found;
    } else if (value.getClass().isArray()) {
      ArrayNode found = NODES.arrayNode();
      for (int i = 0; i < java.lang.reflect.Array.getLength(value); i++) {
        found.add(value(java.lang.reflect.Array.get(value, i)));
      }
      return found;
    }
    return NODES.textNode("s" + value);
  }

  private static String nanoseconds(Instant time) {
    return BigDecimal.valueOf(time.getEpochSecond()).movePointRight(9).add(BigDecimal.valueOf(time.getNano())).toPlainString();
  }

  private static String[] texts(JsonNode nodes) {
    String[] found = new String[nodes.size()];
    for (int i = 0; i < found.length; i++) {
      found[i] = nodes.get(i).isNull() ? null : nodes.get(i).asText();
    }
    return found;
  }

  private static String trace(Throwable error) {
    StringWriter text = new StringWriter();
    error.printStackTrace(new PrintWriter(text));
    return text.toString();
  }
}
