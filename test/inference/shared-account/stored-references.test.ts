// No reference to storage in the gateway's provider accounts is sent, on any path: three APIs, five wires. Unknown fields are
// allowed here, so that references are recognized in any field.

import { afterAll, describe, expect, test } from "bun:test";
import { rejectStoredReferences } from "../../../src/inference/shared-account/reject-references.ts";
import { fetchWithoutNetwork } from "../../support/file-server.ts";
import { IS_FULL } from "../../support/full.ts";
import {
  type Api,
  callApi,
  type Json,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
} from "../../translation/support/harness.ts";
import { POSITIONS, SECRET } from "./reference-positions.ts";

/** The URLs that the gateway fetched itself. */
const fetched: string[] = [];

const harness = await startHarness({
  allowUnknownFields: true,
  fetchFile: async (request) => {
    fetched.push(request.url);
    return await fetchWithoutNetwork(request);
  },
});
afterAll(async () => {
  await harness.stop();
});

interface Outcome {
  readonly status: number;
  readonly error: Json;
  /** The body that reached the provider, if any. */
  readonly sent: Json | undefined;
}

async function call(api: Api, wire: Wire, fields: Json): Promise<Outcome> {
  const before = harness.upstreamRequests.length;
  const { status, json } = await callApi(harness, api, minimalBody(api, wire, "hi", fields));
  return {
    status,
    error: (json["error"] ?? {}) as Json,
    sent: harness.upstreamRequests.slice(before).at(-1)?.body,
  };
}

const part = (one: Json): Json => ({ messages: [{ role: "user", content: [one] }] });
const file = (fields: Json): Json => part({ type: "file", file: fields });
const image = (url: string): Json => ({ type: "image_url", image_url: { url } });
const GS = `gs://${SECRET}/a.pdf`;

/** What passed before requests were checked as they are sent. */
const ATTACKS: readonly (readonly [
  title: string,
  api: Api,
  wire: Wire,
  param: string,
  fields: Json,
])[] = [
  [
    "a URL beside file_data",
    "chat",
    "gemini",
    "messages[0].content[0]",
    file({ url: "x", file_data: GS }),
  ],
  [
    "images of an assistant message",
    "chat",
    "gemini",
    "messages[1].images[0]",
    {
      messages: [
        { role: "user", content: "x" },
        { role: "assistant", content: "y", images: [image(GS)] },
        { role: "user", content: "z" },
      ],
    },
  ],
  [
    "the camel case of cached_content",
    "chat",
    "chat",
    "extra_body.google.cachedContent",
    { extra_body: { google: { cachedContent: `cachedContents/${SECRET}` } } },
  ],
  [
    "a user name before Google's host",
    "chat",
    "gemini",
    "messages[0].content[0]",
    part(image(`https://x@generativelanguage.googleapis.com/v1beta/files/${SECRET}`)),
  ],
  [
    "a control character before the URL",
    "messages",
    "messages",
    "messages[0].content[0].source.url",
    part({ type: "image", source: { type: "url", url: `\u0001gs://${SECRET}/a.png` } }),
  ],
  [
    "a bucket of S3",
    "chat",
    "converse",
    "messages[0].content[0].file_id",
    part({ type: "file", file: { file_id: `s3://${SECRET}/a.pdf` } }),
  ],
  [
    "a list of URLs",
    "chat",
    "chat",
    "unknown[1].image_url[0]",
    { unknown: [{}, { image_url: [GS] }] },
  ],
  [
    "a connector",
    "responses",
    "responses",
    "tools[0].connector_id",
    { tools: [{ type: "mcp", server_label: "x", connector_id: SECRET }] },
  ],
];

const FORMS = [undefined, { lossy: true }] as const;

describe("a reference to stored content", () => {
  test.each(
    ATTACKS.map(([title, api, wire, param, fields]) => ({ title, api, wire, param, fields })),
  )("is refused with its field and the next step: $title", async ({ api, wire, param, fields }) => {
    const { status, error, sent } = await call(api, wire, fields);
    expect([status, error["param"], sent]).toEqual([400, param, undefined]);
    expect(String(error["message"])).toContain("POST /v1/provider-keys");
  });

  for (const [shift, wire] of WIRES.entries())
    test(`is never sent on the ${wire} wire`, async () => {
      const survivors: string[] = [];
      for (const { api, values, fields } of POSITIONS)
        for (const [index, value] of values.entries())
          // In the short form, a wire gets each value once, and the next wire gets it in the other form.
          for (const postern of IS_FULL ? FORMS : [FORMS[(index + shift) % FORMS.length]]) {
            const given = { ...fields(value), ...(postern && { postern }) };
            const { status, sent } = await call(api, wire, given);
            const isSent = JSON.stringify(sent ?? {}).includes(SECRET);
            if (isSent || (status !== 400 && status !== 200 && status !== 404))
              survivors.push(JSON.stringify({ api, status, given, sent }));
          }
      expect(survivors).toEqual([]);
      expect(fetched.filter((url) => url.includes(SECRET))).toEqual([]);
    });
});

const PRIVATE_URLS = [
  "http://169.254.169.254/latest/meta-data/",
  "http://metadata.google.internal/a.png",
  "http://localhost:8080/a.png",
  "http://a.localhost./a.png",
  "http://postgres:5432/a.png",
  "http://127.1/a.png",
  "http://0x7f000001/a.png",
  "http://\uFF11\uFF12\uFF17.0.0.1/a.png",
  "http://10.0.0.5/a.png",
  "http://[::1]/a.png",
  "http://[fd00::1]/a.png",
  "http://[::ffff:10.0.0.5]/a.png",
  "http://192.168.1.1./a.png",
];

describe("a URL in the operator's network", () => {
  for (const wire of WIRES)
    test.each(PRIVATE_URLS)(`is not sent on the ${wire} wire: %s`, async (url) => {
      for (const [api, fields] of [
        ["chat", part(image(url))],
        ["messages", part({ type: "image", source: { type: "url", url } })],
      ] as const) {
        const { status, error, sent } = await call(api, wire, fields);
        expect([status, sent]).toEqual([400, undefined]);
        expect(fetched).not.toContain(url);
        if (wire === api) expect(String(error["message"])).toContain("in a private network");
      }
    });
});

const schema = { type: "object", properties: { file_id: { type: "string" }, container_id: {} } };

/** What looks like a reference, in places where no provider resolves it. */
const ALLOWED: readonly (readonly [title: string, api: Api, fields: Json])[] = [
  ["text", "chat", { messages: [{ role: "user", content: `copy ${GS} to file_id` }] }],
  ["text that is only a URL", "chat", { messages: [{ role: "user", content: GS }] }],
  ["a text part", "messages", part({ type: "text", text: GS })],
  [
    "a text document",
    "messages",
    {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "x" },
            { type: "document", source: { type: "text", media_type: "text/plain", data: GS } },
          ],
        },
      ],
    },
  ],
  [
    "a function's schema",
    "chat",
    { tools: [{ type: "function", function: { name: "f", parameters: schema } }] },
  ],
  [
    "a function's schema",
    "responses",
    { tools: [{ type: "function", name: "f", parameters: schema }] },
  ],
  ["a tool's schema", "messages", { tools: [{ name: "f", input_schema: schema }] }],
  [
    "the schema of the output",
    "chat",
    { response_format: { type: "json_schema", json_schema: { name: "x", schema } } },
  ],
  [
    "the arguments of a call",
    "messages",
    {
      messages: [
        { role: "user", content: "x" },
        {
          role: "assistant",
          content: [{ type: "tool_use", id: "t", name: "f", input: { file_id: "a", url: GS } }],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: GS }] },
      ],
      tools: [{ name: "f", input_schema: schema }],
    },
  ],
  [
    "search results of an earlier reply",
    "chat",
    {
      messages: [
        { role: "user", content: "x" },
        {
          role: "assistant",
          content: "y",
          search_results: [{ url: "https://api.openai.com/docs" }],
          annotations: [
            { type: "url_citation", url_citation: { url: "https://api.openai.com/docs" } },
          ],
        },
        { role: "user", content: "z" },
      ],
    },
  ],
  ["absent values", "chat", { cached_content: null, file_ids: [] }],
];

describe("what only looks like a reference", () => {
  for (const wire of WIRES)
    test.each(ALLOWED.map(([title, api, fields]) => ({ title, api, fields })))(
      `is sent on the ${wire} wire: $title of $api`,
      async ({ api, fields }) => {
        const { status, error } = await call(api, wire, { ...fields, postern: { lossy: true } });
        expect([status, error]).toEqual([200, {}]);
      },
    );

  for (const wire of ["chat", "responses", "messages", "gemini"] as const)
    test(`is an image of a public server, on the ${wire} wire`, async () => {
      const url = "https://example.com/a.png?x=1#y";
      const { status, sent } = await call("chat", wire, part(image(url)));
      expect([status, JSON.stringify(sent)]).toEqual([200, expect.stringContaining(url)]);
    });

  test("is everything on the caller's own provider key", () => {
    for (const { fields, values } of POSITIONS)
      expect(() =>
        rejectStoredReferences(fields(values[0] ?? ""), undefined, "request"),
      ).not.toThrow();
  });

  test("is an image that code made in an earlier response", async () => {
    const url = "https://api.openai.com/v1/containers/cntr_1/files/cfile_1/content";
    const ran = {
      type: "code_interpreter_call",
      id: "ci_1",
      code: "plot()",
      container_id: "cntr_1",
      outputs: [{ type: "image", url }],
      status: "completed",
    };
    const input = [ran, { role: "user", content: "go on" }];
    const { status, sent } = await call("responses", "responses", { input });
    expect([status, JSON.stringify(sent)]).toEqual([200, expect.stringContaining(url)]);
  });

  test("is an unknown field of an operator's server that may get it", async () => {
    const { sent } = await call("chat", "chat", { unknown: { deep: ["x", { profile_id: "y" }] } });
    expect(sent?.["unknown"]).toEqual({ deep: ["x", { profile_id: "y" }] });
  });
});
