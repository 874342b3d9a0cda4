// A reference to storage, or a field that the gateway does not know, at a random position of a random request: it is refused,
// or not in the body that is sent. The positions that providers document are in stored-references.test.ts.

import { afterAll, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../support/full.ts";
import {
  type Api,
  APIS,
  callApi,
  type Harness,
  type Json,
  minimalBody,
  startHarness,
  WIRES,
} from "../../translation/support/harness.ts";
import { SECRET } from "./reference-positions.ts";

const SEED = 4_711;
const RUNS = runs(400);

/** Refuses what it recognizes as a reference, and nothing else. */
const harness = await startHarness();
const lenient = await startHarness({ allowUnknownFields: true });
afterAll(async () => {
  await harness.stop();
  await lenient.stop();
});

const nameIn = (names: string) => fc.constantFrom(...names.split(" "));

/** Values that no provider may resolve, whatever the field's name. */
const storageUri = fc
  .tuple(
    fc.constantFrom("", "\u0001", " \t", "\n"),
    nameIn(
      "gs:// GS:// s3:// S3:// abfss:// wasbs:// oss:// arn:aws:s3::: cachedContents/ fileSearchStores/ ragCorpora/",
    ),
  )
  .map(([prefix, scheme]) => `${prefix}${scheme}${SECRET}/a.pdf`);
/** Values that an image or file must not come from. */
const storageUrl = fc
  .tuple(
    fc.constantFrom("", "\u0001", " "),
    nameIn("https:// HTTPS:// https:\\\\"),
    nameIn(
      "generativelanguage.googleapis.com GenerativeLanguage.googleapis.com. x@generativelanguage.googleapis.com " +
        "us-central1-aiplatform.googleapis.com storage.cloud.google.com api.openai.com api.anthropic.com api.mistral.ai " +
        "api.x.ai api.openai.com:443 x:y@api.openai.com",
    ),
  )
  .map(([prefix, scheme, host]) => `${prefix}${scheme}${host}/v1/files/${SECRET}`);

const field = fc.oneof(
  fc.tuple(
    nameIn(
      "file_id file_ids input_file_id s3_location gcs_uri cached_content container_id vector_store_ids file_search_store_names " +
        "library_ids collection_ids knowledge_base_id corpus_id connector_id connectors tunnel_id previous_response_id " +
        "previous_interaction_id response_id conversation_id thread_id assistant_id agent_id batch_id prompt_id skill_id " +
        "guardrail_identifier vertex_rag_store vertex_ai_search data_stores memory_store_id",
    ),
    fc.constantFrom<unknown>(SECRET, [SECRET], { id: SECRET }, `file-${SECRET}`),
  ),
  fc.tuple(
    nameIn("image_url video_url audio_url document_url file_url file_data file_uri"),
    fc.oneof(
      storageUrl,
      storageUri,
      fc.constantFrom(
        `files/${SECRET}`,
        `https://x:y@example.com/${SECRET}`,
        `\u0001https://example.com/${SECRET}`,
      ),
    ),
  ),
  fc.tuple(
    nameIn("url uri source image document file path location"),
    fc.oneof(storageUrl, storageUri),
  ),
  fc.tuple(nameIn("unknown value reference target store cache ref key"), storageUri),
);

/** The spellings that JSON parsers of protocol buffers and lenient servers accept. */
const SPELLINGS: readonly ((snake: string) => string)[] = [
  (snake) => snake,
  (snake) => snake.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
  (snake) => snake.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase()),
  (snake) => snake.replaceAll("_", "-"),
  (snake) => snake.toUpperCase(),
];

const reference = fc
  .tuple(
    field,
    fc.constantFrom(...SPELLINGS),
    fc.array(fc.constantFrom("object", "list"), { maxLength: 3 }),
  )
  .map(([[name, value], spell, nesting]): Json => {
    let inner: Json = { [spell(name)]: value };
    for (const kind of nesting) inner = { nested: kind === "list" ? [{}, inner] : inner };
    return inner;
  });

const PDF = "data:application/pdf;base64,JVBERi0=";
const IMAGE = "https://example.com/a.png";
const FUNCTION = { name: "f", parameters: { type: "object" } };

/** Requests with most kinds of objects. */
const BODIES: Readonly<Record<Api, () => Json>> = {
  chat: () => ({
    messages: [
      { role: "system", content: "short" },
      {
        role: "user",
        content: [
          { type: "text", text: "hi" },
          { type: "image_url", image_url: { url: IMAGE } },
          { type: "file", file: { file_data: PDF, filename: "a.pdf" } },
        ],
      },
      {
        role: "assistant",
        tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c", content: [{ type: "text", text: "x" }] },
    ],
    tools: [{ type: "function", function: FUNCTION }],
    extra_body: { google: { thinking_config: {} } },
    reasoning: {},
    audio: { format: "mp3", voice: "alloy" },
  }),
  responses: () => ({
    input: [
      {
        type: "message",
        role: "user",
        content: [
          { type: "input_text", text: "hi" },
          { type: "input_image", image_url: IMAGE },
          { type: "input_file", file_data: PDF, filename: "a.pdf" },
        ],
      },
      { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: [{ type: "input_text", text: "x" }] },
    ],
    tools: [{ type: "function", ...FUNCTION }],
    text: { verbosity: "low" },
    reasoning: {},
  }),
  messages: () => ({
    system: [{ type: "text", text: "short" }],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "hi" },
          { type: "image", source: { type: "url", url: IMAGE } },
          {
            type: "document",
            source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" },
          },
        ],
      },
      { role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: {} }] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "x" }] },
        ],
      },
    ],
    tools: [{ name: "f", input_schema: { type: "object" } }],
    output_config: {},
  }),
};

/** Schemas and arguments are the caller's own: what looks like a reference there is not one. */
const CALLER_DATA: ReadonlySet<string> = new Set(["parameters", "input_schema", "input"]);

function objectsIn(value: unknown, isInput = false): readonly Json[] {
  if (Array.isArray(value)) return value.flatMap((item) => objectsIn(item));
  if (typeof value !== "object" || value === null) return [];
  // Safe: an object that is no array.
  const object = value as Json;
  const members = Object.entries(object).filter(
    ([name, member]) => !CALLER_DATA.has(name) || (isInput && Array.isArray(member)),
  );
  return [object, ...members.flatMap(([, member]) => objectsIn(member))];
}

/** A provider's next field: a word that no API has today, with any text. */
const unknownField = fc
  .tuple(
    nameIn("asset handle memory workspace_object stored_item profile recall_from projectRef"),
    fc.constantFrom<unknown>(SECRET, [SECRET], { id: SECRET }, [{ key: [SECRET] }], {
      [SECRET]: 1,
    }),
  )
  .map(([name, value]): Json => ({ [name]: value }));

test("no reference to storage in the provider account is sent", () =>
  check(() => lenient, reference));

test("no reference and no unknown field is sent", () =>
  check(() => harness, fc.oneof(reference, unknownField)));

async function check(target: () => Harness, field: fc.Arbitrary<Json>): Promise<void> {
  const outcomes = { refused: 0, dropped: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(fc.constantFrom(...APIS), fc.constantFrom(...WIRES)),
      field,
      fc.nat(),
      fc.boolean(),
      async ([api, wire], added, position, isLossy) => {
        const fields = structuredClone(BODIES[api]());
        const objects = objectsIn(fields, true);
        const holder = objects[position % objects.length];
        if (holder !== undefined)
          for (const name in added) holder[name] ??= structuredClone(added[name]);
        const body = { ...fields, ...(isLossy && { postern: { lossy: true } }) };
        // Another member of this name was there: nothing was added.
        if (!JSON.stringify(body).includes(SECRET)) return;
        const before = target().upstreamRequests.length;
        const { status } = await callApi(target(), api, minimalBody(api, wire, "hi", body));
        const sent = target()
          .upstreamRequests.slice(before)
          .map((request) => request.body);
        expect(JSON.stringify(sent)).not.toContain(SECRET);
        expect(status === 400 || status === 404 || (status === 200 && sent.length > 0)).toBe(true);
        outcomes[status === 200 ? "dropped" : "refused"] += 1;
      },
    ),
    { seed: SEED, numRuns: RUNS },
  );
  expect(outcomes.refused).toBeGreaterThan(RUNS / 4);
  expect(outcomes.dropped).toBeGreaterThan(0);
}
