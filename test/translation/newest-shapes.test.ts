// What the newest Claude Code and Codex send, to models of providers with another API.

import { afterAll, describe, expect, test } from "bun:test";
import {
  type Api,
  callApi,
  type Json,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";

const harness = await startHarness();
afterAll(() => harness.stop());

const USER = { role: "user", content: "hi" };
const SCHEMA = { type: "object", properties: { query: { type: "string" } } };

async function send(
  api: Api,
  wire: Wire,
  fields: Json,
): Promise<{ message: unknown; dropped: readonly string[]; sent: Json }> {
  const before = harness.upstreamRequests.length;
  const { json, headers } = await callApi(harness, api, minimalBody(api, wire, "hi", fields));
  return {
    message: (json["error"] as Json | null | undefined)?.["message"],
    dropped: headers.get("x-postern-dropped")?.split(", ") ?? [],
    sent: harness.upstreamRequests[before]?.body ?? {},
  };
}

const othersOf = (api: Wire) => WIRES.filter((wire) => wire !== api).map((wire) => ({ wire }));

describe.each(othersOf("responses"))("items of Codex at $wire", ({ wire }) => {
  test("are text if one agent writes to another, without what is encrypted", async () => {
    const agentMessage = (part: Json) => ({
      type: "agent_message",
      author: "/lead/tester",
      recipient: "/lead",
      content: [part],
    });
    const { message, dropped, sent } = await send("responses", wire, {
      input: [
        USER,
        agentMessage({ type: "input_text", text: "All tests pass." }),
        agentMessage({ type: "encrypted_content", encrypted_content: "gAAAAABo" }),
      ],
    });
    expect([message, dropped]).toEqual([undefined, ["input[2].content[0]"]]);
    expect(JSON.stringify(sent)).toContain("/lead/tester to the agent /lead");
    expect(JSON.stringify(sent)).toContain("All tests pass.");
    expect(JSON.stringify(sent)).not.toContain("gAAAAABo");
  });

  test("are a function call and its result if it calls another agent", async () => {
    const call = { call_id: "call_A1b2", action: "spawn_agent", agent: { agent_name: "/lead" } };
    const { message, dropped, sent } = await send("responses", wire, {
      input: [
        USER,
        { type: "multi_agent_call", ...call, arguments: '{"task":"run the tests"}' },
        {
          type: "multi_agent_call_output",
          ...call,
          output: [{ type: "output_text", text: "started it" }],
        },
        USER,
      ],
    });
    expect([message, dropped]).toEqual([undefined, []]);
    for (const text of ["spawn_agent", "run the tests", "started it"])
      expect(JSON.stringify(sent)).toContain(text);
  });

  test("set the effort from there on", async () => {
    const update = (effort: string) => ({ type: "configuration_update", reasoning: { effort } });
    const fields = { reasoning: { effort: "high" } };
    const updated = await send("responses", wire, {
      ...fields,
      input: [USER, update("medium"), { role: "assistant", content: "hello" }, update("low"), USER],
    });
    expect(updated.message).toBeUndefined();
    const plain = await send("responses", wire, {
      reasoning: { effort: "low" },
      input: [USER, { role: "assistant", content: "hello" }, USER],
    });
    expect(updated.sent).toEqual(plain.sent);
  });

  test("lose a compaction of which the conversation is there", async () => {
    const { message, dropped } = await send("responses", wire, {
      input: [
        USER,
        { role: "assistant", content: "hello" },
        { type: "context_compaction", encrypted_content: "gAAAAABo" },
        USER,
      ],
    });
    expect([message, dropped]).toEqual([undefined, ["input[2]"]]);
  });

  test.each([
    ["access_programs", { access_programs: { cyber: "standard" } }],
    ["background_options", { background_options: { completion_window: "soonest" } }],
  ])("lose %s", async (name, fields) => {
    const { message, dropped } = await send("responses", wire, fields);
    expect([message, dropped]).toEqual([undefined, [name]]);
  });
});

describe.each(othersOf("messages"))("fields of Claude Code at $wire", ({ wire }) => {
  const turns = (...messages: Json[]): Json => ({ messages: [USER, ...messages] });
  const effort = (value: string) => ({
    role: "system",
    content: [],
    output_config: { effort: value },
  });

  test("set the effort of a turn with its tool calls", async () => {
    const output_config = { effort: "high" };
    const call = { type: "tool_use", id: "toolu_1", name: "look", input: {} };
    const result = { type: "tool_result", tool_use_id: "toolu_1", content: "found" };
    const loop = [
      { role: "assistant", content: [call] },
      { role: "user", content: [result] },
    ];
    const tools = [{ name: "look", input_schema: SCHEMA }];
    const sentWith = async (fields: Json): Promise<Json> => {
      const { message, dropped, sent } = await send("messages", wire, { tools, ...fields });
      expect([message, dropped]).toEqual([undefined, []]);
      return sent;
    };
    const inTurn = await sentWith({ output_config, ...turns(effort("low"), ...loop) });
    expect(inTurn).toEqual(await sentWith({ output_config: { effort: "low" }, ...turns(...loop) }));
    const later = await sentWith({ output_config, ...turns(effort("low"), ...loop, USER) });
    expect(later).toEqual(await sentWith({ output_config, ...turns(...loop, USER) }));
  });

  test("show an instruction until the next message of the user", async () => {
    const note = { role: "system", content: "Be short.", clear_at: "next_user_message" };
    const shown = await send("messages", wire, turns(note));
    expect([shown.message, shown.dropped]).toEqual([undefined, []]);
    expect(JSON.stringify(shown.sent)).toContain("Be short.");
    const cleared = await send(
      "messages",
      wire,
      turns(note, { role: "assistant", content: "ok" }, USER),
    );
    expect([cleared.message, cleared.dropped]).toEqual([undefined, []]);
    expect(JSON.stringify(cleared.sent)).not.toContain("Be short.");
  });

  test("offer a tool that is added in a message", async () => {
    const definition = { name: "find_page", description: "Finds a page.", input_schema: SCHEMA };
    const addition = { type: "tool_addition", tool: { type: "tool_definition", definition } };
    const { message, dropped, sent } = await send(
      "messages",
      wire,
      turns({ role: "system", content: [addition] }),
    );
    expect([message, dropped]).toEqual([undefined, ["messages[1].content[0]"]]);
    expect(JSON.stringify(sent)).toContain('"name":"find_page"');
  });

  test("lose the listing of a server's tools", async () => {
    const listing = {
      type: "mcp_tool_listing",
      mcp_server_name: "docs",
      tools: [{ name: "find", input_schema: SCHEMA }],
    };
    const { message, dropped } = await send(
      "messages",
      wire,
      turns({ role: "assistant", content: [listing, { type: "text", text: "hello" }] }, USER),
    );
    expect([message, dropped]).toEqual([undefined, ["messages[1].content[0]"]]);
  });

  test.each<[name: string, fields: Json]>([
    ["compaction", { compaction: { type: "summarize", instructions: "Keep the names." } }],
    ["billing_policy", { billing_policy: { type: "billing_policy", bill_to: "self" } }],
    [
      "thinking.block_binding",
      {
        thinking: {
          type: "adaptive",
          block_binding: { prefix_mismatch_behavior: "drop_block" },
        },
      },
    ],
  ])("lose %s", async (name, fields) => {
    const { message, dropped } = await send("messages", wire, fields);
    expect([message, dropped]).toEqual([undefined, expect.arrayContaining([name])]);
  });
});
