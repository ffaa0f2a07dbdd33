# Antecast with Spark and Java, for drivers, for workers of a standalone cluster, and as a Spark Connect server.
# docs/cluster.md says how each of them is started.
#
#   docker build -t antecast .
#   docker run --rm -v "$PWD:/work" antecast sweep loss.toml

FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*

COPY . /src
RUN pip install --no-cache-dir "/src[spark,connect,nats,kafka,mqtt]" && rm -rf /src

# Workers take this Python, and the scripts of Spark are those of the package from PyPI.
ENV SPARK_HOME=/usr/local/lib/python3.11/site-packages/pyspark \
    PYSPARK_PYTHON=/usr/local/bin/python

RUN useradd --create-home --uid 185 spark && mkdir /work && chown spark /work
USER spark
WORKDIR /work
ENTRYPOINT ["/usr/bin/tini", "--", "antecast"]
CMD ["--help"]
