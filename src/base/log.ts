// Structured log lines: JSON, or readable text on a terminal. Request bodies are never logged. An error message may
// quote a request with an API key in it, so keys are redacted in every line.

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  readonly debug: (event: string, fields?: LogFields) => void;
  readonly info: (event: string, fields?: LogFields) => void;
  readonly warn: (event: string, fields?: LogFields) => void;
  readonly error: (event: string, fields?: LogFields) => void;
}

export interface LogOptions {
  readonly level: LogLevel;
  readonly isPretty: boolean;
  readonly now: () => number;
  readonly write: (line: string) => void;
  /** In every line. */
  readonly fields?: LogFields;
}

const RAW_KEY = /-rt-\w{8,}/g;

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

export function createLog(options: LogOptions): Log {
  const minLevel = LEVELS.indexOf(options.level);
  const logAt = (level: LogLevel) => {
    if (LEVELS.indexOf(level) < minLevel) return () => {};
    return (event: string, own: LogFields = {}) => {
      const fields = { ...options.fields, ...own };
      const time = new Date(options.now()).toISOString();
      const line = options.isPretty
        ? prettyLine(time, level, event, fields)
        : JSON.stringify({ time, level, event, ...jsonFields(fields) });
      options.write(line.replaceAll(RAW_KEY, "-rt-[secret]"));
    };
  };
  return { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
}

function prettyLine(time: string, level: LogLevel, event: string, fields: LogFields): string {
  const rest = Object.entries(fields).map(([name, value]) => `${name}=${prettyValue(value)}`);
  return [time.slice(11, 23), level.toUpperCase().padEnd(5), event, ...rest].join(" ");
}

// A stack trace may span lines; any other text is escaped, so that no value can forge a log line.
function prettyValue(value: unknown): string {
  if (value instanceof Error) return describeError(value);
  const plain = printable(value);
  const isSingleLine = typeof plain === "string" && !/\p{Cc}/u.test(plain);
  return isSingleLine ? plain : JSON.stringify(plain);
}

function jsonFields(fields: LogFields): LogFields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error ? describeError(value) : printable(value),
    ]),
  );
}

function printable(value: unknown): unknown {
  return typeof value === "bigint" ? value.toString() : value;
}

/** Stack traces of an error and its causes, for the log only. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = error.stack ?? `${error.name}: ${error.message}`;
  return error.cause === undefined ? own : `${own}\ncaused by: ${describeError(error.cause)}`;
}
