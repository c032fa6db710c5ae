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
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.InputFileBlockLength;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NaNvl;
import org.apache.spark.sql.catalyst.expressions.OctetLength;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.ShiftLeft;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.binaryfile.BinaryFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.FloatType;
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
      Reads reads = new Reads(replacement);
      LogicalPlan found = (LogicalPlan) plan.transformDown(reads);
      return reads.count == 0 ? found : withRuntimeFilters(found);
    }

    /** Spark's rules of runtime filters, which ran before the files were known. */
    private static LogicalPlan withRuntimeFilters(LogicalPlan plan) {
      LogicalPlan found = (LogicalPlan) plan.transformDown(new WithoutPruning());
      found = org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$.MODULE$.apply(found);
      found = org.apache.spark.sql.catalyst.optimizer.InjectRuntimeFilter$.MODULE$.apply(found);
      if (found == plan) {
        return plan;
      }
      LogicalPlan before;
      do {
        before = found;
        found = (LogicalPlan) org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$.MODULE$.apply(before);
      } while (!found.fastEquals(before));
      return org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$.MODULE$.apply(found);
    }
  }

  /** Filters without the subqueries of partition pruning: those were made of reads that are replaced. */
  static class WithoutPruning extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof Filter && isIn(((Filter) node).condition());
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      Expression rest = rest(((Filter) node).condition());
      LogicalPlan child = ((Filter) node).child();
      return rest == null ? child : new Filter(rest, child);
    }

    private static boolean isIn(Expression condition) {
      return condition instanceof And
        ? isIn(((And) condition).left()) || isIn(((And) condition).right())
        : condition instanceof DynamicPruningSubquery;
    }

    private static Expression rest(Expression condition) {
      if (condition instanceof And) {
        Expression left = rest(((And) condition).left());
        Expression right = rest(((And) condition).right());
        return left == null ? right : right == null ? left : new And(left, right);
      }
      return condition instanceof DynamicPruningSubquery ? null : condition;
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

    /** All conditions of the filters, as SQL; null if Python cannot read them all, or something else stands above. */
    List everyCondition() {
      int count = 0;
      for (int i = 0; i < above.size(); i++) {
        LogicalPlan node = (LogicalPlan) above.get(i);
        if (node instanceof LocalLimit || !node.deterministic()) {
          return null;
        }
        count += node instanceof Filter ? Conditions.count(((Filter) node).condition()) : 0;
      }
      List found = conditions();
      return found.size() == count ? found : null;
    }

    /** Whether filters compare timestamps with times that may not be whole milliseconds. */
    boolean comparesMicros() {
      for (int i = 0; i < above.size(); i++) {
        if (above.get(i) instanceof Filter && Conditions.hasMicros(((Filter) above.get(i)).condition())) {
          return true;
        }
      }
      return false;
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

    /** The number of conditions that AND joins. */
    static int count(Expression condition) {
      return condition instanceof And ? count(((And) condition).left()) + count(((And) condition).right()) : 1;
    }

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
      if (node instanceof Literal && !isOneInstant(((Literal) node).value(), node.dataType(), zone)) {
        return false;
      }
      if (node instanceof InSet) {
        scala.collection.Iterator values = ((InSet) node).hset().iterator();
        while (values.hasNext()) {
          if (!isOneInstant(values.next(), ((InSet) node).child().dataType(), zone)) {
            return false;
          }
        }
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

    /** Whether an expression has a time that is not whole milliseconds. Subqueries and sets count as ones that may. */
    static boolean hasMicros(Expression node) {
      if (node instanceof PlanExpression || node instanceof InSet) {
        return true;
      }
      if (node instanceof Literal && node.dataType() instanceof org.apache.spark.sql.types.TimestampType) {
        Object value = ((Literal) node).value();
        return value != null && ((Long) value).longValue() % 1000 != 0;
      }
      scala.collection.Iterator children = node.children().iterator();
      while (children.hasNext()) {
        if (hasMicros((Expression) children.next())) {
          return true;
        }
      }
      return false;
    }

    /** Whether the text of a literal, a local time without an offset, stands for one instant: not if clocks go back. */
    private static boolean isOneInstant(Object value, DataType type, String zone) {
      if (value == null || !(type instanceof org.apache.spark.sql.types.TimestampType)) {
        return true;
      }
      long micros = ((Long) value).longValue();
      java.time.Instant instant = java.time.Instant.ofEpochSecond(Math.floorDiv(micros, 1000000L));
      java.time.ZoneId id = org.apache.spark.sql.catalyst.util.DateTimeUtils$.MODULE$.getZoneId(zone);
      return id.getRules().getValidOffsets(java.time.LocalDateTime.ofInstant(instant, id)).size() == 1;
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

  /** Ids of plannings. Spark plans a query, with its subqueries, under one tracker. */
  static class Plannings {
    private static final Map KNOWN = new java.util.WeakHashMap();

    /** The id of the operation that the thread's local property names, else of the planning; null without either. */
    static String current(org.apache.spark.sql.classic.SparkSession session) {
      String operation = session.sparkContext().getLocalProperty("lakescan.operation");
      scala.Option tracker = org.apache.spark.sql.catalyst.QueryPlanningTracker$.MODULE$.get();
      if (operation != null || tracker.isEmpty()) {
        return operation;
      }
      synchronized (KNOWN) {
        String id = (String) KNOWN.get(tracker.get());
        if (id == null) {
          id = java.util.UUID.randomUUID().toString();
          KNOWN.put(tracker.get(), id);
        }
        return id;
      }
    }
  }

  /** What Python is asked: most of it in one text, since each call between Python and the JVM takes time. */
  public static class Request {
    private final Object session;
    private final Object scan;
    private final String text;

    /** `totals` are the aggregates that are asked for, null for rows. */
    Request(Chain chain, List columns, List conditions, List totals) throws Exception {
      session = org.apache.spark.sql.classic.SparkSession.active();
      scan = chain.read.scan();
      List names = new ArrayList();
      for (int i = 0; i < columns.size(); i++) {
        names.add(((Attribute) columns.get(i)).name());
      }
      Map facts = new HashMap();
      facts.put("columns", names);
      facts.put("conditions", conditions);
      facts.put("totals", totals);
      facts.put("limit", Integer.valueOf(chain.limit()));
      facts.put("micros", Boolean.valueOf(chain.comparesMicros()));
      facts.put("name", value(scan, "shortName"));
      facts.put("planning", Plannings.current((org.apache.spark.sql.classic.SparkSession) session));
      facts.put("options", new HashMap((Map) value(scan, "options")));
      facts.put("has_filters", Boolean.valueOf(((Object[]) value(scan, "supportedFilters")).length > 0));
      text = new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(facts);
    }

    public Object session() {
      return session;
    }

    /** The columns, conditions, aggregates and limit above the read, and the read's name and options, as JSON. */
    public String text() {
      return text;
    }

    /** The settings of the session that have these names, as JSON; those of Spark have their defaults. */
    public String settings(String names) throws Exception {
      org.apache.spark.sql.RuntimeConfig conf = ((org.apache.spark.sql.SparkSession) session).conf();
      Map found = new HashMap();
      String[] each = names.split(",");
      for (int i = 0; i < each.length; i++) {
        found.put(each[i], conf.get(each[i], null));
      }
      return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(found);
    }

    /** The hash of the data source, by which Python finds it again. */
    public String sourceHash() throws Exception {
      return Lakescan.sourceHash(scan);
    }

    /** The data source of the read as Python pickled it, with the snapshot that it is pinned to. */
    public byte[] source() throws Exception {
      return pickledSource(scan);
    }
  }

  /** Replaces chains; Python returns the plan of the columns, null to leave the read, or a text: an error. */
  static class Reads extends scala.runtime.AbstractPartialFunction {
    private final java.util.function.Function replacement;
    int count = 0;

    Reads(java.util.function.Function replacement) {
      this.replacement = replacement;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof Aggregate || (node instanceof LogicalPlan && new Chain((LogicalPlan) node).read != null);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (node instanceof Aggregate) {
        Object row = new Totals((Aggregate) node).row(replacement);
        return row == null ? otherwise.apply(node) : row;
      }
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      Chain chain = new Chain((LogicalPlan) node);
      List columns = chain.columns();
      Object answer;
      try {
        answer = replacement.apply(new Request(chain, columns, chain.conditions(), null));
      } catch (Exception gone) { // Python has ended, or was interrupted.
        return node;
      }
      if (answer instanceof String) {
        throw throwable((String) answer);
      }
      if (!(answer instanceof LogicalPlan)) {
        return node;
      }
      Object replaced = replaced(chain, columns, (LogicalPlan) answer);
      if (replaced == null) {
        return node;
      }
      count++;
      return replaced;
    }

    /** Raises an error that Python answered: the name of the data source, and a message. */
    static RuntimeException throwable(String answer) {
      String[] parts = answer.split("\n", 2);
      Throwable error =
        org.apache.spark.sql.errors.QueryCompilationErrors.pythonDataSourceError("plan", parts[0], parts[1]);
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
      while (next >= 0 && !has((LogicalPlan) chain.above.get(next), PlanExpression.class)) {
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
      } else if (condition.deterministic() && !has(condition, PlanExpression.class)) {
        simple.add(condition);
      }
    }

  }

  /** Whether expressions of a node have one of a class in them. */
  static boolean has(LogicalPlan node, Class kind) {
    scala.collection.Iterator expressions = node.expressions().iterator();
    while (expressions.hasNext()) {
      if (has((Expression) expressions.next(), kind)) {
        return true;
      }
    }
    return false;
  }

  static boolean has(Expression node, Class kind) {
    if (kind.isInstance(node)) {
      return true;
    }
    scala.collection.Iterator children = node.children().iterator();
    while (children.hasNext()) {
      if (has((Expression) children.next(), kind)) {
        return true;
      }
    }
    return false;
  }

  /** An aggregate of all rows of a read, which metadata may have: counts of rows, least and greatest values. */
  static class Totals extends scala.runtime.AbstractPartialFunction {
    private final Aggregate node;
    private final Chain chain;
    private final List wanted = new ArrayList();
    private final List values = new ArrayList();

    Totals(Aggregate node) {
      this.node = node;
      this.chain = new Chain(node.child());
    }

    /** A projection of the values, in the place of the aggregate; null if metadata does not prove them. */
    Object row(java.util.function.Function replacement) {
      List conditions = chain.read == null || !node.groupingExpressions().isEmpty() ? null : chain.everyCondition();
      if (conditions == null || !find() || wanted.isEmpty()) {
        return null;
      }
      List texts = new ArrayList();
      for (int i = 0; i < wanted.size(); i++) {
        texts.add(text((AggregateExpression) wanted.get(i)));
      }
      Object answer;
      try {
        answer = replacement.apply(new Request(chain, new ArrayList(), conditions, texts));
      } catch (Exception gone) { // Python has ended, or was interrupted.
        return null;
      }
      if (answer instanceof String) {
        throw Reads.throwable((String) answer);
      }
      return answer instanceof byte[] ? projected((byte[]) answer) : null;
    }

    private boolean find() {
      scala.collection.Iterator every = node.aggregateExpressions().iterator();
      while (every.hasNext()) {
        if (!find((Expression) every.next())) {
          return false;
        }
      }
      return true;
    }

    private boolean find(Expression expression) {
      if (expression instanceof AggregateExpression) {
        wanted.add(expression);
        return text((AggregateExpression) expression) != null;
      }
      if (expression instanceof PlanExpression || expression instanceof AttributeReference) {
        return false;
      }
      scala.collection.Iterator children = expression.children().iterator();
      while (children.hasNext()) {
        if (!find((Expression) children.next())) {
          return false;
        }
      }
      return true;
    }

    /** What Python is asked for: count, or min or max and a column; null for other functions. */
    private String text(AggregateExpression expression) {
      Expression function = expression.aggregateFunction();
      if (expression.filter().isDefined()) {
        return null;
      }
      if (function instanceof Count) {
        scala.collection.Iterator children = function.children().iterator();
        while (children.hasNext()) {
          Object child = children.next();
          if (!(child instanceof Literal) || ((Literal) child).value() == null) {
            return null;
          }
        }
        return expression.isDistinct() ? null : "count";
      }
      if (!(function instanceof Min || function instanceof Max)) {
        return null;
      }
      Expression column = (Expression) function.children().head();
      return column instanceof AttributeReference && chain.read.outputSet().contains((AttributeReference) column)
        ? (function instanceof Min ? "min " : "max ") + ((AttributeReference) column).name()
        : null;
    }

    /** `answer`: JSON of a title, and for each function its type and its value: a number, or the bytes in Base64. */
    private LogicalPlan projected(byte[] answer) {
      Map found;
      try {
        found = (Map) new com.fasterxml.jackson.databind.ObjectMapper().readValue(answer, Map.class);
      } catch (java.io.IOException unreadable) {
        return null;
      }
      for (int i = 0; i < wanted.size(); i++) {
        DataType type = ((AggregateExpression) wanted.get(i)).dataType();
        if (!type.simpleString().equals(((List) found.get("types")).get(i))) {
          return null;
        }
        Object given = ((List) found.get("values")).get(i);
        Object value = given == null
          ? null
          : given instanceof String
            ? Files.decoded(java.util.Base64.getDecoder().decode((String) given), type)
            : Files.decoded(((Number) given).longValue(), type.typeName());
        String name = found.get("title") + ((AggregateExpression) wanted.get(i)).sql();
        values.add(
          new Alias(
            new Literal(value, type), name, org.apache.spark.sql.catalyst.expressions.NamedExpression$.MODULE$.newExprId(), none(),
            scala.Option.empty(), none()));
      }
      List columns = new ArrayList();
      scala.collection.Iterator every = node.aggregateExpressions().iterator();
      while (every.hasNext()) {
        columns.add(((Expression) every.next()).transformDown(this));
      }
      LogicalPlan row = new org.apache.spark.sql.catalyst.plans.logical.OneRowRelation();
      return new Project(seq(columns), new Project(seq(values), row));
    }

    public boolean isDefinedAt(Object expression) {
      return expression instanceof AggregateExpression;
    }

    public Object applyOrElse(Object expression, scala.Function1 otherwise) {
      for (int i = 0; i < wanted.size(); i++) {
        if (isDefinedAt(expression)
            && ((AggregateExpression) wanted.get(i)).resultId().equals(((AggregateExpression) expression).resultId())) {
          return ((Alias) values.get(i)).toAttribute();
        }
      }
      return otherwise.apply(expression);
    }
  }

  /** The data source of a read as Python pickled it, with the snapshot that it is pinned to. */
  static byte[] pickledSource(Object scan) throws Exception {
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

  /** Gives a read the data source that Python pickled, instead of one that a worker would create by the options. */
  public static void giveSource(Object dataset, byte[] pickled) throws Exception {
    findSource(dataset);
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) dataset).queryExecution().analyzed();
    Object source = value(((DataSourceV2Relation) plan).table(), "ds");
    Field made = source.getClass().getDeclaredField("dataSourceInPython");
    made.setAccessible(true);
    made.set(source, made.getType().getConstructors()[0].newInstance(new Object[] {pickled, plan.schema()}));
  }

  /** The hash of the data source of a read, by which Python finds it again. */
  static String sourceHash(Object scan) throws Exception {
    byte[] hash = java.security.MessageDigest.getInstance("SHA-256").digest(pickledSource(scan));
    return new java.math.BigInteger(1, hash).toString(16);
  }

  static Object value(Object owner, String name) throws Exception {
    Field field = owner.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(owner);
  }

  /**
   * A frame of a relation over files of a format (parquet, orc): their columns, then hidden columns of one value each.
   *
   * `index` is the name of the column for the positions of rows, if they are needed. Rows whose bit is set in the hidden
   * column `deleted` are left out. `outputs` is a JSON list of the output: for each column a name, the name of a column
   * here, and whether it is protected from filters of Spark's Parquet reader; null for all columns here. `width` are the
   * bytes that Spark counts for a row of the whole table.
   */
  public static Object frame(
      Object session, String title, String format, String root, byte[] packed, String hidden, String columns,
      String options, String index, String deleted, String outputs, int width) throws Exception {
    com.fasterxml.jackson.databind.ObjectMapper json = new com.fasterxml.jackson.databind.ObjectMapper();
    StructType facts = (StructType) DataType.fromJson(hidden);
    StructType data = (StructType) DataType.fromJson(columns);
    if (index != null) {
      data = data.add(ROW_INDEX, org.apache.spark.sql.types.DataTypes.LongType, true);
    }
    scala.collection.immutable.Map all = scala.collection.immutable.Map$.MODULE$.from(
      scala.jdk.javaapi.CollectionConverters.asScala((Map) json.readValue(options, Map.class)));
    // Spark gives each column the part of the bytes that its width is of all columns: as if all columns were here.
    double share = (8.0 + data.defaultSize() + facts.defaultSize()) / (8.0 + width);
    org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
    Scans.install(classic);
    HadoopFsRelation relation = new HadoopFsRelation(
      new Files(classic, title, root, packed, facts, share), facts, data, scala.Option.empty(), formatOf(format), all,
      classic);
    LogicalPlan plan;
    try {
      plan = LogicalRelation$.MODULE$.apply(relation, named(title, relation.schema()));
    } catch (Exception without) { // The name is only shown.
      plan = LogicalRelation$.MODULE$.apply(relation, false);
    }
    Map known = new HashMap();
    List found = scala.jdk.javaapi.CollectionConverters.asJava(plan.output());
    for (int i = 0; i < found.size(); i++) {
      known.put(((Attribute) found.get(i)).name(), found.get(i));
    }
    known.put(index, known.get(ROW_INDEX));
    if (deleted != null) {
      plan = new Filter(isLive((Expression) known.get(deleted), (Expression) known.get(ROW_INDEX)), plan);
    }
    List output = new ArrayList();
    if (outputs == null) {
      for (int i = 0; i < found.size(); i++) {
        Attribute one = (Attribute) found.get(i);
        output.add(one.name().equals(ROW_INDEX) ? alias(one, index) : one);
      }
    } else {
      List wanted = (List) json.readValue(outputs, List.class);
      for (int i = 0; i < wanted.size(); i++) {
        List one = (List) wanted.get(i);
        Expression value = (Expression) known.get(one.get(1));
        output.add(alias(Boolean.TRUE.equals(one.get(2)) ? isProtected(value) : value, (String) one.get(0)));
      }
    }
    plan = new Project(seq(output), plan);
    return org.apache.spark.sql.classic.Dataset.ofRows(classic, plan);
  }

  /** A frame of the paths and lengths of files: Spark's workers look each file up once, and nothing else does. */
  public static Object statuses(Object session, byte[] packed) {
    org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
    Map options = new HashMap();
    options.put("ignoreMissingFiles", "false");
    options.put("ignoreCorruptFiles", "false");
    HadoopFsRelation relation = new HadoopFsRelation(
      new Named(classic, packed), new StructType(), BinaryFileFormat.schema(), scala.Option.empty(), new BinaryFileFormat(),
      scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(options)), classic);
    return org.apache.spark.sql.classic.Dataset.ofRows(classic, LogicalRelation$.MODULE$.apply(relation, false));
  }

  private static FileFormat formatOf(String name) {
    return name.equals("orc")
      ? (FileFormat) new org.apache.spark.sql.execution.datasources.orc.OrcFileFormat()
      : (FileFormat) new ParquetFileFormat();
  }

  private static final String ROW_INDEX = ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME();

  private static Alias alias(Expression value, String name) {
    return new Alias(
      value, name, org.apache.spark.sql.catalyst.expressions.NamedExpression$.MODULE$.newExprId(), none(), scala.Option.empty(),
      none());
  }

  /** A value that Spark does not compare with the statistics of a file: see `FileColumns.is_protected`. */
  private static Expression isProtected(Expression value) {
    if (value.dataType() instanceof DecimalType) {
      return new org.apache.spark.sql.catalyst.expressions.CheckOverflow(value, (DecimalType) value.dataType(), true);
    }
    if (value.dataType() instanceof org.apache.spark.sql.types.TimestampType) {
      return new org.apache.spark.sql.catalyst.expressions.MicrosToTimestamp(
        new org.apache.spark.sql.catalyst.expressions.UnixMicros(value));
    }
    Object nan = value.dataType() instanceof FloatType ? (Object) Float.valueOf(Float.NaN) : Double.valueOf(Double.NaN);
    return new NaNvl(value, Literal.create(nan, value.dataType()));
  }

  /**
   * Whether the bit at a row's position is not set. Positions after the last bit are not deleted.
   *
   * Bits are in words of four bytes, lowest bit first; the bytes of a word are in Java's order.
   */
  private static Expression isLive(Expression bits, Expression index) {
    DataType integer = org.apache.spark.sql.types.DataTypes.IntegerType;
    Expression place = call(Math.class, integer, "toIntExact", new Expression[] {index});
    Expression isPast = new GreaterThanOrEqual(new ShiftRight(place, Literal.create(Integer.valueOf(3), integer)),
      new OctetLength(bits));
    Expression start = new ShiftLeft(new ShiftRight(place, Literal.create(Integer.valueOf(5), integer)),
      Literal.create(Integer.valueOf(2), integer));
    Expression word = call(
      org.apache.hadoop.io.WritableComparator.class, integer, "readInt", new Expression[] {bits, start});
    Expression one = Literal.create(Integer.valueOf(1), integer);
    Expression number = new BitwiseAnd(place, Literal.create(Integer.valueOf(31), integer));
    Expression bit = new BitwiseAnd(new ShiftRight(word, number), one);
    return new Or(new Or(new IsNull(bits), isPast), new EqualTo(bit, Literal.create(Integer.valueOf(0), integer)));
  }

  /** A call of a static method of Java, Hadoop or Spark, whose classes executors have. */
  private static Expression call(Class owner, DataType type, String name, Expression[] arguments) {
    return new StaticInvoke(
      owner, type, name, seq(Arrays.asList(arguments)), none(), true, false, true, scala.Option.empty());
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

  /**
   * The strategy that plans reads of lakescan's files as Spark does, with scans that read each file to its end.
   *
   * Spark splits a file by its recorded size, and reads the row groups whose middles lie in a split. If the file is
   * longer, rows would be lost. The last split of each file has no end instead, so that no file is looked up. Scans
   * that Spark makes without this strategy get files with the sizes that they have now.
   */
  public static class Scans extends org.apache.spark.sql.execution.SparkStrategy {
    private static final long END = 1L << 50;
    static final ThreadLocal BY_RECORDED_SIZES = new ThreadLocal();
    private static java.lang.reflect.Constructor made = null;

    private final java.lang.reflect.Constructor scan;

    Scans(java.lang.reflect.Constructor scan) {
      this.scan = scan;
    }

    /** Adds the strategy to a session, unless it is there. A Spark that differs from those that were tried goes without. */
    static void install(org.apache.spark.sql.SparkSession session) {
      try {
        org.apache.spark.sql.ExperimentalMethods methods = session.experimental();
        List strategies = new ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(methods.extraStrategies()));
        for (int i = 0; i < strategies.size(); i++) {
          if (strategies.get(i) instanceof Scans) {
            return;
          }
        }
        strategies.add(new Scans(compiled()));
        methods.extraStrategies_$eq(seq(strategies));
      } catch (Throwable unlike) {
        return;
      }
    }

    /**
     * The constructor of a subclass of Spark's scan, whose parameters are those of Spark's, which differ by version.
     *
     * The subclass exists on the driver only: executors get Spark's own scan where operators are sent with it. That scan
     * is made with the session's settings, which the thread that serializes tasks does not have. The subclass does not
     * equal Spark's scan, in neither order: a tree would keep that one.
     */
    private static synchronized java.lang.reflect.Constructor compiled() throws Exception {
      if (made == null) {
        Class[] types = FileSourceScanExec.class.getConstructors()[0].getParameterTypes();
        StringBuilder parameters = new StringBuilder();
        StringBuilder arguments = new StringBuilder();
        for (int i = 0; i < types.length; i++) {
          parameters.append(i == 0 ? "" : ", ").append(types[i].getName()).append(" p").append(i);
          arguments.append(i == 0 ? "p" : ", p").append(i);
        }
        String spark = "org.apache.spark.sql.execution.";
        String text = "package lakescan; public class FileSourceScanExec extends " + spark + "FileSourceScanExec {"
          + " private final Object plain;"
          + " public FileSourceScanExec(" + parameters + ") { super(" + arguments + ");"
          + " plain = new " + spark + "FileSourceScanExec(" + arguments + "); }"
          + " public " + spark + "ScanFileListing selectedPartitions() {"
          + " Object before = Lakescan.Scans.listed(this);"
          + " try { return super.selectedPartitions(); } finally { Lakescan.Scans.restore(before); } }"
          + " public org.apache.spark.rdd.RDD inputRDD() { return Lakescan.Scans.withoutEnd(super.inputRDD()); }"
          + " public " + spark + "FileSourceScanExec copy(" + parameters + ") {"
          + " return new FileSourceScanExec(" + arguments + "); }"
          + " public boolean canEqual(Object other) { return other instanceof FileSourceScanExec; }"
          + " public boolean equals(Object other) { return canEqual(other) && super.equals(other); }"
          + " public int hashCode() { return super.hashCode(); }"
          + " public Object writeReplace() { return plain; } }";
        org.codehaus.janino.SimpleCompiler compiler = new org.codehaus.janino.SimpleCompiler();
        compiler.setParentClassLoader(Lakescan.class.getClassLoader());
        compiler.cook(text);
        made = compiler.getClassLoader().loadClass("lakescan.FileSourceScanExec").getConstructors()[0];
      }
      return made;
    }

    public scala.collection.immutable.Seq apply(LogicalPlan plan) {
      LogicalPlan node = plan;
      boolean exact = false;
      while (node instanceof Project || node instanceof Filter) {
        exact = exact || has(node, InputFileBlockLength.class); // It would show that a split has no end.
        node = (LogicalPlan) node.children().head();
      }
      if (exact
          || !(node instanceof LogicalRelation)
          || !(((LogicalRelation) node).relation() instanceof HadoopFsRelation)
          || !(((HadoopFsRelation) ((LogicalRelation) node).relation()).location() instanceof Files)) {
        return none();
      }
      List planned = scala.jdk.javaapi.CollectionConverters.asJava(
        org.apache.spark.sql.execution.datasources.FileSourceStrategy$.MODULE$.apply(plan));
      List found = new ArrayList();
      for (int i = 0; i < planned.size(); i++) {
        found.add(((TreeNode) planned.get(i)).transformDown(new ToEnd(scan)));
      }
      return seq(found);
    }

    static Object copied(java.lang.reflect.Constructor constructor, scala.Product scan) {
      Object[] arguments = new Object[scan.productArity()];
      for (int i = 0; i < arguments.length; i++) {
        arguments[i] = scan.productElement(i);
      }
      try {
        return constructor.newInstance(arguments);
      } catch (Exception unlike) {
        org.apache.spark.unsafe.Platform.throwException(unlike);
        return null;
      }
    }

    /** Lets this thread list the files of a scan with their recorded sizes; returns what `restore` takes. */
    public static Object listed(Object scan) {
      Object before = BY_RECORDED_SIZES.get();
      BY_RECORDED_SIZES.set(((HadoopFsRelation) ((scala.Product) scan).productElement(0)).location());
      return before;
    }

    public static void restore(Object before) {
      BY_RECORDED_SIZES.set(before);
    }

    /** The rows of a scan, whose last split of each file has no end. */
    public static org.apache.spark.rdd.RDD withoutEnd(org.apache.spark.rdd.RDD rows) {
      int begun = 0;
      int ended = 0;
      scala.collection.Iterator partitions = ((FileScanRDD) rows).filePartitions().iterator();
      while (partitions.hasNext()) {
        PartitionedFile[] files = ((FilePartition) partitions.next()).files();
        for (int i = 0; i < files.length; i++) {
          PartitionedFile file = files[i];
          long end = file.start() + file.length();
          begun += file.start() == 0 ? 1 : 0;
          ended += end == file.fileSize() || end == END ? 1 : 0;
          if (end == file.fileSize()) {
            files[i] = new PartitionedFile(
              file.partitionValues(), file.filePath(), file.start(), END - file.start(), file.locations(),
              file.modificationTime(), file.fileSize(), file.otherConstantMetadataColumnValues());
          }
        }
      }
      if (begun != ended) {
        throw new IllegalStateException("lakescan: " + begun + " files begin in splits of Spark, and " + ended + " end");
      }
      return rows;
    }
  }

  /** Replaces Spark's scans by those that read to the end. */
  static class ToEnd extends scala.runtime.AbstractPartialFunction {
    private final java.lang.reflect.Constructor scan;

    ToEnd(java.lang.reflect.Constructor scan) {
      this.scan = scan;
    }

    public boolean isDefinedAt(Object node) {
      return node.getClass() == FileSourceScanExec.class;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? Scans.copied(scan, (scala.Product) node) : otherwise.apply(node);
    }
  }

  /** Looks up the status of a file. */
  static class LookUp implements java.util.concurrent.Callable {
    private final Path path;
    private final org.apache.hadoop.conf.Configuration settings;

    LookUp(Path path, org.apache.hadoop.conf.Configuration settings) {
      this.path = path;
      this.settings = settings;
    }

    public Object call() throws Exception {
      return path.getFileSystem(settings).getFileStatus(path);
    }
  }

  /** The files of one scan, with the values of their hidden columns; equal if all of this is. */
  public static class Files implements FileIndex {
    private final org.apache.spark.sql.classic.SparkSession session;
    private final String title;
    private final Path root;
    private final byte[] packed;
    private final StructType hidden;
    private final double share;
    private final int hash;
    private String[] paths;
    long[] sizes;
    private Object[][] values;

    public Files(
        org.apache.spark.sql.classic.SparkSession session, String title, String root, byte[] packed, StructType hidden,
        double share) {
      this.session = session;
      this.title = title;
      this.share = share;
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

    static Object decoded(byte[] data, DataType type) {
      if (type instanceof DecimalType) {
        DecimalType decimal = (DecimalType) type;
        BigDecimal value = new BigDecimal(new String(data, java.nio.charset.StandardCharsets.UTF_8));
        return Decimal.apply(value, decimal.precision(), decimal.scale());
      }
      return type.typeName().equals("string") ? (Object) UTF8String.fromBytes(data) : (Object) data;
    }

    static Object decoded(long bits, String kind) {
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
      long[] lengths = Scans.BY_RECORDED_SIZES.get() == this ? sizes : currentSizes(wanted);
      List found = new ArrayList();
      for (int i = 0; i < paths.length; i++) {
        if (wanted[i]) {
          FileStatus status = new FileStatus(lengths[i], false, 1, 134217728L, 0L, path(i));
          List one = Collections.singletonList(new FileStatusWithMetadata(status, nothing));
          found.add(new PartitionDirectory(new GenericInternalRow(values[i]), seq(one)));
        }
      }
      return seq(found);
    }

    /** The sizes that files have now, in as many look-ups. */
    long[] currentSizes(boolean[] wanted) {
      org.apache.hadoop.conf.Configuration settings = session.sessionState().newHadoopConf();
      java.util.concurrent.ExecutorService threads = java.util.concurrent.Executors.newFixedThreadPool(32);
      try {
        java.util.concurrent.Future[] answers = new java.util.concurrent.Future[paths.length];
        for (int i = 0; i < paths.length; i++) {
          answers[i] = wanted[i] ? threads.submit(new LookUp(path(i), settings)) : null;
        }
        long[] found = new long[paths.length];
        for (int i = 0; i < paths.length; i++) {
          found[i] = wanted[i] ? ((FileStatus) answers[i].get()).getLen() : 0;
        }
        return found;
      } catch (Exception failed) {
        boolean isWrapped = failed instanceof java.util.concurrent.ExecutionException;
        org.apache.spark.unsafe.Platform.throwException(isWrapped ? failed.getCause() : failed);
        return null;
      } finally {
        threads.shutdownNow();
      }
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

    /** The bytes of the columns that are read, by which Spark chooses joins. */
    public long sizeInBytes() {
      long total = 0;
      for (int i = 0; i < sizes.length; i++) {
        total += sizes[i];
      }
      return (long) Math.ceil(total * share);
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

  /** Files that are read whole, whatever their sizes are. */
  static class Named extends Files {
    Named(org.apache.spark.sql.classic.SparkSession session, byte[] packed) {
      super(session, "lakescan", "lakescan:/", packed, new StructType(), 1.0);
    }

    long[] currentSizes(boolean[] wanted) {
      return sizes;
    }
  }
}
