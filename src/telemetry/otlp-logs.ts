// Encodes log records as OTLP JSON.

import { attributesOf, toUnixNano } from "./otlp.ts";
import type { AttributeValue } from "./span.ts";

/** INFO of the log data model. */
const SEVERITY_INFO = 9;

export interface LogRecord {
  readonly at: number;
  readonly eventName: string;
  readonly body: string;
  readonly attributes: Readonly<Record<string, AttributeValue | undefined>>;
}

export function otlpLogsJson(
  scope: { readonly serviceName: string; readonly name: string },
  records: readonly LogRecord[],
): string {
  return JSON.stringify({
    resourceLogs: [
      {
        resource: { attributes: attributesOf({ "service.name": scope.serviceName }) },
        scopeLogs: [
          {
            scope: { name: scope.name },
            logRecords: records.map(({ at, eventName, body, attributes }) => ({
              timeUnixNano: toUnixNano(at),
              observedTimeUnixNano: toUnixNano(at),
              severityNumber: SEVERITY_INFO,
              severityText: "INFO",
              eventName,
              body: { stringValue: body },
              attributes: attributesOf(attributes),
            })),
          },
        ],
      },
    ],
  });
}
