// The `traceparent` header of W3C Trace Context.

/** The caller's span, from the `traceparent` header. */
export interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;
const SAMPLED = 1;

/** Undefined if the header is invalid, which W3C Trace Context says to ignore. */
export function parseTraceParent(header: string | null): TraceParent | undefined {
  const [, traceId, spanId, flags] =
    (header === null ? null : TRACEPARENT.exec(header.trim())) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
}
