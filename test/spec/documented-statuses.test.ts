// Every status that a route promises is provoked by some test. What a route promises is read from the route table: its
// answers, its faults, and those of its guards.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import path from "node:path";
import { FAULTS } from "../../src/base/fault.ts";
import { possibleFaults } from "../../src/discovery/error-docs.ts";
import type { Route } from "../../src/http/route.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { testedStatuses } from "../support/source/tested-statuses.ts";
import { ROOT } from "../support/source/source-files.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.stop());

interface Exemption {
  readonly why: string;
  readonly matches: (route: Route, status: number) => boolean;
  /** Where it is tested; each is there. */
  readonly tests: readonly string[];
}

/** Loops over the whole route table name no route; each of them stands for its status on every route that it takes. */
const LOOPS: readonly Exemption[] = [
  {
    why: "every endpoint that takes a key is called without one",
    matches: (route, status) => route.auth === "key" && status === 401,
    tests: ["test/spec/authentication.test.ts"],
  },
  {
    why: "every endpoint but the operator's is called while the process shuts down",
    matches: (route, status) => route.tag !== "Operations" && status === 503,
    tests: ["test/spec/errors.test.ts"],
  },
  {
    why: "every endpoint that takes a key is called too often; model calls by their hold",
    matches: (route, status) => route.auth === "key" && status === 429,
    tests: ["test/spec/limits.test.ts"],
  },
  {
    why: "every body comes one byte at a time",
    matches: (route, status) =>
      route.method !== "GET" && route.auth !== "session" && status === 408,
    tests: ["test/http/slow-clients.test.ts"],
  },
  {
    why: "every small body is too large, of a wrong type, and malformed",
    matches: (route, status) =>
      route.method !== "GET" &&
      (route.auth === "key" || route.auth === "none") &&
      route.bodyLimitBytes === undefined &&
      route.bodyType !== "form" &&
      (status === 413 || (route.body !== undefined && (status === 415 || status === 400))),
    tests: ["test/spec/bad-input.test.ts"],
  },
  {
    why: "every endpoint that takes a key is called while the store is broken",
    matches: (route, status) => route.auth === "key" && status === 500,
    tests: ["test/spec/errors.test.ts"],
  },
  {
    why: "every document is asked for, and asked for again by a client that has it",
    matches: (route, status) => route.tag === "Discovery" && (status === 200 || status === 304),
    tests: ["test/spec/discovery.test.ts"],
  },
];

/** Rooms whose tests are their own. */
const TESTED_ELSEWHERE: readonly Exemption[] = [
  {
    why: "model calls",
    matches: ({ tag, path }) => tag === "Models" && !path.startsWith("/v1/models"),
    tests: [
      "test/spec/model-calls-bad-input.test.ts",
      "test/inference/upstream/provider-failures.test.ts",
    ],
  },
  {
    why: "the catalog",
    matches: ({ path }) => path.startsWith("/v1/models"),
    tests: ["test/models/routes.test.ts"],
  },
  {
    why: "own provider keys",
    matches: ({ path }) => path.startsWith("/v1/provider-keys"),
    tests: ["test/provider-keys/routes.test.ts"],
  },
  {
    why: "webhooks and events, the audit, billing and the console",
    matches: ({ tag, path }) =>
      ["Webhooks", "Audit", "Billing"].includes(tag) || path.startsWith("/console"),
    tests: ["test/events", "test/audit", "test/billing", "test/console"],
  },
  {
    why: "the claim, and what humans meet",
    matches: ({ auth, dialect, path }) =>
      dialect === "oauth" ||
      auth === "optional-session" ||
      auth === "session" ||
      /^\/(claim|signin|signout|auth)/.test(path),
    tests: ["test/claims/claim-api.test.ts", "test/people/sign-in.test.ts"],
  },
];

/** What a test from outside cannot bring about. */
const UNREACHABLE: readonly Exemption[] = [
  {
    why: "a document and an operator's page are made at the start and need no store: they fail by a bug alone",
    matches: (route, status) =>
      (route.tag === "Discovery" || route.tag === "Operations") && status === 500,
    tests: [],
  },
];

function documentedStatuses(route: Route): readonly number[] {
  const answers = Object.keys(route.responses).map(Number);
  return [...new Set([...answers, ...possibleFaults(route).map((code) => FAULTS[code][0])])];
}

describe("the route table's promises", () => {
  test("every status that a route promises is provoked by some test", () => {
    const provoked = testedStatuses();
    const exempt = [...LOOPS, ...TESTED_ELSEWHERE, ...UNREACHABLE];
    const missing = gateway.server.routes.flatMap((route) =>
      documentedStatuses(route)
        .filter((status) => !provoked.has(`${route.id} ${status}`))
        .filter((status) => !exempt.some(({ matches }) => matches(route, status)))
        .map((status) => `${route.id} ${status}`),
    );
    expect(missing).toEqual([]);
  });

  test("no test claims to have provoked what no route promises", () => {
    const promised = new Set(
      gateway.server.routes.flatMap((route) =>
        documentedStatuses(route).map((status) => `${route.id} ${status}`),
      ),
    );
    expect([...testedStatuses()].filter((one) => !promised.has(one))).toEqual([]);
  });

  test("every exemption is of use, and the tests that it names are there", () => {
    for (const { why, matches, tests } of [...LOOPS, ...TESTED_ELSEWHERE, ...UNREACHABLE]) {
      const uses = gateway.server.routes.filter((route) =>
        documentedStatuses(route).some((status) => matches(route, status)),
      );
      expect({ why, unused: uses.length === 0 }).toEqual({ why, unused: false });
      for (const file of tests)
        expect({ file, isThere: existsSync(path.join(ROOT, file)) }).toEqual({
          file,
          isThere: true,
        });
    }
  });
});
