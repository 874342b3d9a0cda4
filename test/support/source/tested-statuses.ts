// Registry of documented statuses that tests cover. Test files run in several processes, so the registry is the source text:
// a test of the route table searches it for calls such as `expectStatus("createAccount", 201, response)`.

import { expect } from "bun:test";
import { filesUnder } from "./source-files.ts";

/** Covered in this process by loops over the route table, whose calls contain no literal route id. */
const testedInProcess = new Set<string>();

/** Expects a documented status of a route. */
export function expectStatus(
  routeId: string,
  status: number,
  response: { readonly status: number; readonly text?: unknown },
): void {
  const actual =
    response.status === status ? status : { status: response.status, text: response.text };
  expect({ routeId, actual }).toEqual({ routeId, actual: status });
  testedInProcess.add(`${routeId} ${status}`);
}

/** Every `<route id> <status>` that a test covers. */
export function testedStatuses(): ReadonlySet<string> {
  const written = filesUnder("test", /\.test\.tsx?$/).flatMap(({ text }) =>
    [...text.matchAll(/\bexpectStatus\(\s*"(\w+)",\s*(\d{3})/g)].map(
      ([, routeId = "", status = ""]) => `${routeId} ${status}`,
    ),
  );
  return new Set([...written, ...testedInProcess]);
}
