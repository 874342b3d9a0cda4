// Structured lines: JSON for machines, and readable ones on a terminal. What is logged is data, never a request's body. Words
// about a request may quote it, and with it a key that was pasted where none belongs: no line has one.

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
}

const RAW_KEY = /-rt-\w{8,}/g;

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

export function createLog(options: LogOptions): Log {
  const minLevel = LEVELS.indexOf(options.level);
  const logAt = (level: LogLevel) => {
    if (LEVELS.indexOf(level) < minLevel) return () => {};
    return (event: string, fields: LogFields = {}) => {
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

// An error is shown with its lines; any other text stays on this one, so that no value looks like a line of the log.
function prettyValue(value: unknown): string {
  if (value instanceof Error) return describeError(value);
  const shown = printable(value);
  const isPlain = typeof shown === "string" && !/\p{Cc}/u.test(shown);
  return isPlain ? shown : JSON.stringify(shown);
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

/** An error with its causes, for the log only. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = error.stack ?? `${error.name}: ${error.message}`;
  return error.cause === undefined ? own : `${own}\ncaused by: ${describeError(error.cause)}`;
}
