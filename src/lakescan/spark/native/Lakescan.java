package lakescan;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** What lakescan runs in the driver's JVM. Compiled by Janino: no lambdas, and raw collections. */
public class Lakescan {
  static scala.collection.immutable.Seq seq(List values) {
    return scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq();
  }

  static scala.collection.immutable.Seq none() {
    return seq(new ArrayList());
  }

  /** The optimizer rule: replaces reads of lakescan's Python data sources by scans of Spark's Parquet reader. */
  public static class Rule extends org.apache.spark.sql.catalyst.rules.Rule {
    private final java.util.function.Function replacement;
    private final String owner;

    public Rule(java.util.function.Function replacement, String owner) {
      this.replacement = replacement;
      this.owner = owner;
    }

    public String owner() {
      return owner;
    }

    public TreeNode apply(TreeNode plan) {
      return (TreeNode) plan.transformDown(new Reads(replacement));
    }
  }

  /** A read of a Python data source, and the projections, filters and the limit directly above it. */
  static class Chain {
    final List above = new ArrayList();
    final DataSourceV2ScanRelation read;

    Chain(LogicalPlan top) {
      LogicalPlan node = top;
      while (node instanceof Project || node instanceof Filter || node instanceof LocalLimit) {
        above.add(node);
        node = (LogicalPlan) node.children().head();
      }
      read = isRead(node) ? (DataSourceV2ScanRelation) node : null;
    }

    private static boolean isRead(LogicalPlan node) {
      return node instanceof DataSourceV2ScanRelation
        && ((DataSourceV2ScanRelation) node).scan().getClass().getName().endsWith(".python.PythonScan");
    }

    /** The columns that the nodes above read; all columns without a projection. */
    List columns() {
      Set ids = new HashSet();
      boolean projected = false;
      for (int i = above.size() - 1; i >= 0 && !projected; i--) {
        scala.collection.Iterator found = ((LogicalPlan) above.get(i)).references().iterator();
        while (found.hasNext()) {
          ids.add(((Attribute) found.next()).exprId());
        }
        projected = above.get(i) instanceof Project;
      }
      List columns = new ArrayList();
      scala.collection.Iterator every = read.output().iterator();
      while (every.hasNext()) {
        Attribute column = (Attribute) every.next();
        if (!projected || ids.contains(column.exprId())) {
          columns.add(column);
        }
      }
      return columns;
    }

    /** The conditions of the filters that Python can read, as SQL; evaluated again by Spark. */
    List conditions() {
      List texts = new ArrayList();
      for (int i = above.size() - 1; i >= 0; i--) {
        LogicalPlan node = (LogicalPlan) above.get(i);
        if (node instanceof LocalLimit || !node.deterministic()) {
          break; // It has to see the rows that conditions above it remove.
        }
        if (node instanceof Filter) {
          Conditions.add(((Filter) node).condition(), read, texts);
        }
      }
      return texts;
    }

    /** The rows that the limit takes if there is no filter below it; -1 otherwise. */
    int limit() {
      for (int i = above.size() - 1; i >= 0 && !(above.get(i) instanceof Filter); i--) {
        if (above.get(i) instanceof LocalLimit) {
          Expression limit = ((LocalLimit) above.get(i)).limitExpr();
          return limit instanceof Literal ? ((Number) ((Literal) limit).value()).intValue() : -1;
        }
      }
      return -1;
    }
  }

  static class Conditions {
    private static final Set KNOWN = new HashSet(Arrays.asList(new String[] {
      "Add", "And", "AttributeReference", "CaseWhen", "Cast", "Coalesce", "Concat", "Contains", "DateAdd", "DateSub",
      "EndsWith", "EqualNullSafe", "EqualTo", "GetStructField", "GreaterThan", "GreaterThanOrEqual", "If", "In",
      "InSet", "IsNaN", "IsNotNull", "IsNull", "LessThan", "LessThanOrEqual", "Like", "Literal", "Lower", "Multiply",
      "Not", "Or", "StartsWith", "Substring", "Subtract", "TruncDate", "TruncTimestamp", "Upper", "Year"
    }));

    static void add(Expression condition, DataSourceV2ScanRelation read, List texts) {
      if (condition instanceof And) {
        add(((And) condition).left(), read, texts);
        add(((And) condition).right(), read, texts);
        return;
      }
      try {
        String zone = org.apache.spark.sql.internal.SQLConf.get().sessionLocalTimeZone();
        boolean[] ansi = new boolean[] {true};
        if (condition.deterministic() && isKnown(condition, read, zone, ansi)) {
          texts.add((ansi[0] ? "1" : "0") + ((Expression) condition.transformUp(new Unqualified())).sql());
        }
      } catch (Exception unknown) {
        return; // Not pruned by it.
      }
    }

    private static boolean isKnown(Expression node, DataSourceV2ScanRelation read, String zone, boolean[] ansi)
        throws Exception {
      if (!KNOWN.contains(node.getClass().getSimpleName())
          || !node.getClass().getName().startsWith("org.apache.spark.sql.catalyst.expressions.")
          || node.dataType().sql().toLowerCase().contains("collate")) {
        return false;
      }
      if (node instanceof AttributeReference && !read.outputSet().contains((AttributeReference) node)) {
        return false;
      }
      if (node instanceof TimeZoneAwareExpression) {
        scala.Option own = ((TimeZoneAwareExpression) node).timeZoneId();
        if (own.isDefined() && !zone.equals(own.get())) {
          return false;
        }
      }
      Method mode = method(node.getClass(), "evalMode");
      if (mode != null && !"ANSI".equals(String.valueOf(mode.invoke(node, new Object[0])))) {
        ansi[0] = false;
      }
      scala.collection.Iterator children = node.children().iterator();
      while (children.hasNext()) {
        if (!isKnown((Expression) children.next(), read, zone, ansi)) {
          return false;
        }
      }
      return true;
    }

    private static Method method(Class owner, String name) {
      Method[] methods = owner.getMethods();
      for (int i = 0; i < methods.length; i++) {
        if (methods[i].getName().equals(name) && methods[i].getParameterTypes().length == 0) {
          return methods[i];
        }
      }
      return null;
    }
  }

  /** Columns without the names of their tables. */
  static class Unqualified extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? ((AttributeReference) node).withQualifier(none()) : otherwise.apply(node);
    }
  }

  /** Replaces chains; Python returns the plan of the columns, null to leave the read, or a text: an error. */
  static class Reads extends scala.runtime.AbstractPartialFunction {
    private final java.util.function.Function replacement;

    Reads(java.util.function.Function replacement) {
      this.replacement = replacement;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof LogicalPlan && new Chain((LogicalPlan) node).read != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      Chain chain = new Chain((LogicalPlan) node);
      List columns = chain.columns();
      List names = new ArrayList();
      for (int i = 0; i < columns.size(); i++) {
        names.add(((Attribute) columns.get(i)).name());
      }
      Map request = new HashMap();
      request.put("session", org.apache.spark.sql.classic.SparkSession.active());
      request.put("scan", chain.read.scan());
      request.put("columns", joined(names));
      request.put("conditions", joined(chain.conditions()));
      request.put("limit", Integer.valueOf(chain.limit()));
      Object answer;
      try {
        answer = replacement.apply(request);
      } catch (RuntimeException gone) { // Python has ended, or was interrupted.
        return node;
      }
      if (answer instanceof String) {
        String[] parts = ((String) answer).split("\n", 2);
        throw throwable(parts[0], parts[1]);
      }
      if (!(answer instanceof LogicalPlan)) {
        return node;
      }
      Object replaced = replaced(chain, columns, (LogicalPlan) answer);
      return replaced == null ? node : replaced;
    }

    private static RuntimeException throwable(String kind, String message) {
      Throwable error = org.apache.spark.sql.errors.QueryCompilationErrors.pythonDataSourceError("plan", kind, message);
      org.apache.spark.unsafe.Platform.throwException(error);
      return null;
    }

    private static LogicalPlan replaced(Chain chain, List columns, LogicalPlan rows) {
      List aliases = new ArrayList();
      List found = scala.jdk.javaapi.CollectionConverters.asJava(rows.output());
      if (found.size() != columns.size()) {
        return null;
      }
      for (int i = 0; i < columns.size(); i++) {
        Attribute ours = (Attribute) found.get(i);
        Attribute theirs = (Attribute) columns.get(i);
        if (!ours.dataType().catalogString().equals(theirs.dataType().catalogString())) {
          return null;
        }
        aliases.add(new Alias(ours, theirs.name(), theirs.exprId(), theirs.qualifier(), scala.Option.empty(), none()));
      }
      LogicalPlan plan = new Project(seq(aliases), rows);
      int next = chain.above.size() - 1;
      while (next >= 0 && !hasSubquery((LogicalPlan) chain.above.get(next))) {
        plan = on(plan, (LogicalPlan) chain.above.get(next--));
      }
      if (next >= 0 && chain.above.get(next) instanceof Filter) { // What Spark can push down, below the rest.
        List simple = new ArrayList();
        withoutSubqueries(((Filter) chain.above.get(next)).condition(), simple);
        for (int i = 0; i < simple.size(); i++) {
          plan = new Filter((Expression) simple.get(i), plan);
        }
      }
      List wanted = scala.jdk.javaapi.CollectionConverters.asJava(plan.output());
      plan = (LogicalPlan) org.apache.spark.sql.classic.SparkSession.active().sessionState().optimizer().execute(plan);
      plan = under(plan, wanted);
      while (next >= 0) {
        plan = on(plan, (LogicalPlan) chain.above.get(next--));
      }
      return plan;
    }

    /** The plan with the ids of these columns: the optimizer keeps only their names and their order. */
    private static LogicalPlan under(LogicalPlan plan, List wanted) {
      List found = scala.jdk.javaapi.CollectionConverters.asJava(plan.output());
      List columns = new ArrayList();
      boolean same = true;
      for (int i = 0; i < wanted.size(); i++) {
        Attribute ours = (Attribute) found.get(i);
        Attribute theirs = (Attribute) wanted.get(i);
        boolean is = ours.exprId().equals(theirs.exprId());
        same = same && is;
        columns.add(
          is
            ? (Object) ours
            : new Alias(ours, theirs.name(), theirs.exprId(), theirs.qualifier(), scala.Option.empty(), none()));
      }
      return same ? plan : new Project(seq(columns), plan);
    }

    private static LogicalPlan on(LogicalPlan child, LogicalPlan node) {
      return (LogicalPlan) node.withNewChildren(seq(Collections.singletonList(child)));
    }

    private static void withoutSubqueries(Expression condition, List simple) {
      if (condition instanceof And) {
        withoutSubqueries(((And) condition).left(), simple);
        withoutSubqueries(((And) condition).right(), simple);
      } else if (condition.deterministic() && !hasSubquery(condition)) {
        simple.add(condition);
      }
    }

    private static boolean hasSubquery(LogicalPlan node) {
      scala.collection.Iterator expressions = node.expressions().iterator();
      while (expressions.hasNext()) {
        if (hasSubquery((Expression) expressions.next())) {
          return true;
        }
      }
      return false;
    }

    private static boolean hasSubquery(Expression node) {
      if (node instanceof PlanExpression) {
        return true;
      }
      scala.collection.Iterator children = node.children().iterator();
      while (children.hasNext()) {
        if (hasSubquery((Expression) children.next())) {
          return true;
        }
      }
      return false;
    }
  }

  /** The data source of a read as Python pickled it, with the snapshot that it is pinned to. */
  public static byte[] pickledSource(Object scan) throws Exception {
    Object source = value(scan, "ds");
    Object made = value(source, "dataSourceInPython");
    if (made == null) {
      Method create = null;
      Method[] methods = source.getClass().getMethods();
      for (int i = 0; i < methods.length; i++) {
        if (methods[i].getName().equals("getOrCreateDataSourceInPython")) {
          create = methods[i];
        }
      }
      Object schema = scala.Option.apply(value(scan, "outputSchema"));
      made = create.invoke(source, new Object[] {value(scan, "shortName"), value(scan, "options"), schema});
    }
    return (byte[]) made.getClass().getMethod("dataSource", new Class[0]).invoke(made, new Object[0]);
  }

  /** Looks up the data source of a read now: others than the session that has it may plan the read later. */
  public static void findSource(Object dataset) throws Exception {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) dataset).queryExecution().analyzed();
    Object source = value(((DataSourceV2Relation) plan).table(), "ds");
    source.getClass().getMethod("source", new Class[0]).invoke(source, new Object[0]);
  }

  /** The hash of the data source of a read, by which Python finds it again. */
  public static String sourceHash(Object scan) throws Exception {
    byte[] hash = java.security.MessageDigest.getInstance("SHA-256").digest(pickledSource(scan));
    return new java.math.BigInteger(1, hash).toString(16);
  }

  /** Texts in one: Python reads the elements of a list by a call each. */
  static String joined(List texts) {
    StringBuilder all = new StringBuilder();
    for (int i = 0; i < texts.size(); i++) {
      all.append(i == 0 ? "" : "\0").append(String.valueOf(texts.get(i)));
    }
    return all.toString();
  }

  /** The options of a read, whose names are in lower case: names and values in turn. */
  public static String options(Object scan) throws Exception {
    List texts = new ArrayList();
    Object[] entries = ((Map) value(scan, "options")).entrySet().toArray();
    for (int i = 0; i < entries.length; i++) {
      texts.add(((Map.Entry) entries[i]).getKey());
      texts.add(((Map.Entry) entries[i]).getValue());
    }
    return joined(texts);
  }

  public static String shortName(Object scan) throws Exception {
    return (String) value(scan, "shortName");
  }

  public static boolean hasPushedFilters(Object scan) throws Exception {
    return ((Object[]) value(scan, "supportedFilters")).length > 0;
  }

  private static Object value(Object owner, String name) throws Exception {
    Field field = owner.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(owner);
  }

  /** The four bytes of a binary at a place, as an integer: not null if the binary is not. */
  public static Expression integerAt(Expression bytes, Expression place) {
    List arguments = new ArrayList();
    arguments.add(bytes);
    arguments.add(place);
    return new StaticInvoke(
      org.apache.hadoop.io.WritableComparator.class, org.apache.spark.sql.types.DataTypes.IntegerType, "readInt",
      seq(arguments), none(), true, false, true, scala.Option.empty());
  }

  /** The plan of a relation over files: columns of the files, then hidden columns that each file has one value of. */
  public static Object relation(
      Object session, String title, String root, byte[] packed, Object hidden, Object columns, Map options) {
    Files files = new Files(title, root, packed, (StructType) hidden);
    scala.collection.immutable.Map all = scala.collection.immutable.Map$.MODULE$.from(
      scala.jdk.javaapi.CollectionConverters.asScala(options));
    HadoopFsRelation relation = new HadoopFsRelation(
      files, (StructType) hidden, (StructType) columns, scala.Option.empty(), new ParquetFileFormat(), all,
      (org.apache.spark.sql.classic.SparkSession) session);
    LogicalPlan plan;
    try {
      plan = LogicalRelation$.MODULE$.apply(relation, named(title, relation.schema()));
    } catch (Exception without) { // The name is only shown.
      plan = LogicalRelation$.MODULE$.apply(relation, false);
    }
    return org.apache.spark.sql.classic.Dataset.ofRows((org.apache.spark.sql.classic.SparkSession) session, plan);
  }

  private static org.apache.spark.sql.catalyst.catalog.CatalogTable named(String title, StructType schema)
      throws Exception {
    Class type = org.apache.spark.sql.catalyst.catalog.CatalogTable.class;
    java.lang.reflect.Constructor create = type.getConstructors()[0];
    Object[] arguments = new Object[create.getParameterTypes().length];
    for (int i = 0; i < arguments.length; i++) {
      if (i == 0) {
        arguments[i] = new org.apache.spark.sql.catalyst.TableIdentifier(title);
      } else if (i == 1) {
        arguments[i] = org.apache.spark.sql.catalyst.catalog.CatalogTableType.EXTERNAL();
      } else if (i == 2) {
        arguments[i] = org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat.empty();
      } else if (i == 3) {
        arguments[i] = schema;
      } else {
        arguments[i] = type.getMethod("$lessinit$greater$default$" + (i + 1), new Class[0]).invoke(null, new Object[0]);
      }
    }
    return (org.apache.spark.sql.catalyst.catalog.CatalogTable) create.newInstance(arguments);
  }

  /** The files of one scan, with the values of their hidden columns; equal if all of this is. */
  public static class Files implements FileIndex {
    private final String title;
    private final Path root;
    private final byte[] packed;
    private final StructType hidden;
    private final int hash;
    private String[] paths;
    private long[] sizes;
    private Object[][] values;

    public Files(String title, String root, byte[] packed, StructType hidden) {
      this.title = title;
      this.root = new Path(root);
      this.packed = packed;
      this.hidden = hidden;
      this.hash = Arrays.hashCode(packed);
      unpack();
    }

    private void unpack() {
      ByteBuffer in = ByteBuffer.wrap(packed).order(ByteOrder.LITTLE_ENDIAN);
      int count = in.getInt();
      sizes = new long[count];
      for (int i = 0; i < count; i++) {
        sizes[i] = in.getLong();
      }
      byte[][] texts = binaries(in, count);
      paths = new String[count];
      for (int i = 0; i < count; i++) {
        paths[i] = new String(texts[i], java.nio.charset.StandardCharsets.UTF_8);
      }
      StructField[] fields = hidden.fields();
      values = new Object[count][fields.length];
      for (int n = 0; n < fields.length; n++) {
        byte[] valid = new byte[count];
        in.get(valid);
        String kind = fields[n].dataType().typeName();
        if (kind.equals("string") || kind.equals("binary") || fields[n].dataType() instanceof DecimalType) {
          byte[][] data = binaries(in, count);
          for (int i = 0; i < count; i++) {
            values[i][n] = valid[i] == 0 ? null : decoded(data[i], fields[n].dataType());
          }
        } else {
          for (int i = 0; i < count; i++) {
            long bits = in.getLong();
            values[i][n] = valid[i] == 0 ? null : decoded(bits, kind);
          }
        }
      }
    }

    private static byte[][] binaries(ByteBuffer in, int count) {
      long[] ends = new long[count + 1];
      for (int i = 0; i <= count; i++) {
        ends[i] = in.getLong();
      }
      byte[][] found = new byte[count][];
      for (int i = 0; i < count; i++) {
        found[i] = new byte[(int) (ends[i + 1] - ends[i])];
        in.get(found[i]);
      }
      return found;
    }

    private static Object decoded(byte[] data, DataType type) {
      if (type instanceof DecimalType) {
        DecimalType decimal = (DecimalType) type;
        BigDecimal value = new BigDecimal(new String(data, java.nio.charset.StandardCharsets.UTF_8));
        return Decimal.apply(value, decimal.precision(), decimal.scale());
      }
      return type.typeName().equals("string") ? (Object) UTF8String.fromBytes(data) : (Object) data;
    }

    private static Object decoded(long bits, String kind) {
      if (kind.equals("boolean")) {
        return Boolean.valueOf(bits != 0);
      } else if (kind.equals("byte")) {
        return Byte.valueOf((byte) bits);
      } else if (kind.equals("short")) {
        return Short.valueOf((short) bits);
      } else if (kind.equals("integer") || kind.equals("date")) {
        return Integer.valueOf((int) bits);
      } else if (kind.equals("long") || kind.equals("timestamp") || kind.equals("timestamp_ntz")) {
        return Long.valueOf(bits);
      } else if (kind.equals("float")) {
        return Float.valueOf(Float.intBitsToFloat((int) bits));
      } else if (kind.equals("double")) {
        return Double.valueOf(Double.longBitsToDouble(bits));
      }
      throw new IllegalArgumentException("lakescan: a hidden column of type " + kind);
    }

    /** Spark does not test partition filters again: they are evaluated here. */
    public scala.collection.immutable.Seq listFiles(
        scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
      boolean[] wanted = new boolean[paths.length];
      Arrays.fill(wanted, true);
      scala.collection.Iterator filters = partitionFilters.iterator();
      while (filters.hasNext()) {
        narrow((Expression) filters.next(), wanted);
      }
      scala.collection.immutable.Map nothing = scala.collection.immutable.Map$.MODULE$.empty();
      List found = new ArrayList();
      for (int i = 0; i < paths.length; i++) {
        if (wanted[i]) {
          FileStatus status = new FileStatus(sizes[i], false, 1, 134217728L, 0L, path(i));
          List one = Collections.singletonList(new FileStatusWithMetadata(status, nothing));
          found.add(new PartitionDirectory(new GenericInternalRow(values[i]), seq(one)));
        }
      }
      return seq(found);
    }

    private void narrow(Expression filter, boolean[] wanted) {
      List attributes = new ArrayList();
      List places = new ArrayList();
      scala.collection.Iterator found = filter.references().iterator();
      while (found.hasNext()) {
        Attribute attribute = (Attribute) found.next();
        attributes.add(attribute);
        places.add(Integer.valueOf(hidden.fieldIndex(attribute.name())));
      }
      BasePredicate test = Predicate$.MODULE$.create(filter, seq(attributes));
      test.initialize(0);
      for (int i = 0; i < wanted.length; i++) {
        if (wanted[i]) {
          Object[] row = new Object[places.size()];
          for (int n = 0; n < row.length; n++) {
            row[n] = values[i][((Integer) places.get(n)).intValue()];
          }
          wanted[i] = test.eval((InternalRow) new GenericInternalRow(row));
        }
      }
    }

    public scala.collection.immutable.Seq rootPaths() {
      return seq(Collections.singletonList(root));
    }

    public String[] inputFiles() {
      String[] found = new String[paths.length];
      for (int i = 0; i < paths.length; i++) {
        found[i] = path(i).toUri().toString();
      }
      return found;
    }

    /** The path of a file as Spark lists it: that of a local file has an empty authority (`file:///`). */
    private Path path(int i) {
      Path path = new Path(paths[i]);
      java.net.URI uri = path.toUri();
      return "file".equals(uri.getScheme()) && uri.getAuthority() == null ? new Path("file", "", uri.getPath()) : path;
    }

    public void refresh() {}

    public long sizeInBytes() {
      long total = 0;
      for (int i = 0; i < sizes.length; i++) {
        total += sizes[i];
      }
      return total;
    }

    public StructType partitionSchema() {
      return hidden;
    }

    public scala.Option metadataOpsTimeNs() {
      return scala.Option.empty();
    }

    public String toString() {
      return title;
    }

    public int hashCode() {
      return hash;
    }

    public boolean equals(Object other) {
      return other instanceof Files
        && title.equals(((Files) other).title)
        && hidden.equals(((Files) other).hidden)
        && Arrays.equals(packed, ((Files) other).packed);
    }
  }
}
