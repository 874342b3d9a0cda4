// `DATABASE_URL`: one URL, or libpq's form with several hosts, of which the gateway uses the one that accepts writes.

export interface PostgresTarget {
  /** One URL per host, without the parameters that are read here. */
  readonly urls: readonly string[];
  /** Host and port of each URL. */
  readonly hosts: readonly string[];
  /** False behind a pooler that gives each transaction another server connection, such as PgBouncer. */
  readonly usesPreparedStatements: boolean;
}

/** Modes of libpq that can select a server which accepts writes. */
const TARGET_MODES: ReadonlySet<string> = new Set(["any", "read-write", "primary"]);
const URL_PARTS = /^(postgres(?:ql)?:\/\/)((?:[^@/?#]*@)?)([^/?#]*)(.*)$/s;

/** Throws an error that names the wrong part. */
export function parsePostgresUrl(text: string): PostgresTarget {
  const [, scheme, credentials, hostList = "", rest = ""] = URL_PARTS.exec(text) ?? [];
  if (scheme === undefined) throw new Error("must begin with postgres://");
  let mode = "read-write";
  let usesPreparedStatements = true;
  const urls = hostList.split(",").map((host) => {
    const url = parseHost(`${scheme}${credentials}${host}${rest}`);
    const parameters = url.searchParams;
    mode = parameters.get("target_session_attrs") ?? mode;
    usesPreparedStatements = parameters.get("pgbouncer") !== "true";
    parameters.delete("target_session_attrs");
    parameters.delete("pgbouncer");
    return url;
  });
  if (!TARGET_MODES.has(mode))
    throw new Error(
      `has target_session_attrs=${mode}, but Postern writes: use read-write, or leave it out`,
    );
  return {
    urls: urls.map(({ href }) => href),
    hosts: urls.map(({ host }) => host),
    usesPreparedStatements,
  };
}

export function isPostgresUrl(text: string): boolean {
  try {
    return parsePostgresUrl(text).urls.length > 0;
  } catch {
    return false;
  }
}

function parseHost(text: string): URL {
  const advice =
    "must be a URL such as postgres://user:password@host:5432/database, also with several hosts as host1:5432,host2:5432; write # / ? @ in user and password as %23 %2F %3F %40";
  try {
    const url = new URL(text);
    // Throws for a `%` that is not part of an escape.
    for (const part of [url.username, url.password, url.pathname]) decodeURIComponent(part);
    return url;
  } catch (cause) {
    throw new Error(advice, { cause });
  }
}
