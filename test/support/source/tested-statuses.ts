// Which promised statuses the tests have seen. Each test file runs in a process of its own, so the registry is the text
// of the calls: `expectStatus("createAccount", 201, answer)` fails where the answer has another status, and the test of the
// route table reads which calls there are.

import { expect } from "bun:test";
import { filesUnder } from "./source-files.ts";

/** What this process has seen, for loops over the route table, whose calls name no route. */
const testedInProcess = new Set<string>();

/** Says that a route gave a status that it promises. */
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

/** Every `<route id> <status>` that some test provokes. */
export function testedStatuses(): ReadonlySet<string> {
  const written = filesUnder("test", /\.test\.tsx?$/).flatMap(({ text }) =>
    [...text.matchAll(/\bexpectStatus\(\s*"(\w+)",\s*(\d{3})/g)].map(
      ([, routeId = "", status = ""]) => `${routeId} ${status}`,
    ),
  );
  return new Set([...written, ...testedInProcess]);
}
