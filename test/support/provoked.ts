// Which promised statuses the tests have seen. Each test file runs in a process of its own, so the registry is the text
// of the calls: `provoked("createAccount", 201, answer)` fails where the answer has another status, and the test of the
// route table reads which calls there are.

import { expect } from "bun:test";
import { filesUnder } from "./source.ts";

/** What this process has seen, for loops over the route table, whose calls name no route. */
const seen = new Set<string>();

/** Says that a route gave a status that it promises. */
export function provoked(
  routeId: string,
  status: number,
  answer: { readonly status: number; readonly text?: unknown },
): void {
  const got = answer.status === status ? status : { status: answer.status, text: answer.text };
  expect({ routeId, got }).toEqual({ routeId, got: status });
  seen.add(`${routeId} ${status}`);
}

/** Every `<route id> <status>` that some test provokes. */
export function allProvoked(): ReadonlySet<string> {
  const written = filesUnder("test", /\.test\.tsx?$/).flatMap(({ text }) =>
    [...text.matchAll(/\bprovoked\(\s*"(\w+)",\s*(\d{3})/g)].map(
      ([, routeId = "", status = ""]) => `${routeId} ${status}`,
    ),
  );
  return new Set([...written, ...seen]);
}
