// How each coding agent is pointed at a gateway, as the guides say it, and which of its tools do the steps of the task.

import type { Json } from "../translation/support/harness.ts";
import type { ClientName } from "./client-programs.ts";
import { COMMAND, SUBTASK, type ToolCall } from "./coding-task.ts";
import type { Client } from "./run-client.ts";

const WRONG = "total: 41 wrong-total";
const RIGHT = "total: 42 checked";
const PATCH = `*** Begin Patch\n*** Update File: total.txt\n@@\n-${WRONG}\n+${RIGHT}\n*** End Patch\n`;

const CLAUDE_CODE: Client = {
  tools: (file) => ({
    read: [{ name: "Read", input: { file_path: file } }],
    edit: [{ name: "Edit", input: { file_path: file, old_string: WRONG, new_string: RIGHT } }],
    run: [{ name: "Bash", input: { command: COMMAND, description: "Run the check" } }],
    delegate: [
      {
        name: "Agent",
        input: { description: "Count lines", prompt: SUBTASK, subagent_type: "general-purpose" },
      },
    ],
  }),
  args: ({ model }, task) => [
    "-p",
    task,
    "--model",
    model,
    "--permission-mode",
    "acceptEdits",
    "--allowed-tools",
    "Bash",
    "Agent",
  ],
  env: ({ url, key }) => ({
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_AUTH_TOKEN: key,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  }),
};

/** A model with code mode calls Codex's tools from JavaScript. */
const inCode = (name: string, input: unknown): ToolCall => ({
  name: "exec",
  input: `text(await tools.${name}(${JSON.stringify(input)}));`,
});
const execCommand = (cmd: string): readonly ToolCall[] => [
  inCode("exec_command", { cmd }),
  { name: "exec_command", input: { cmd } },
];

/** Models that Codex does not know get its older tools, which name an agent by its id. */
function waitForAgent(conversation: string): Json {
  const [, id] = /agent_id\W+([0-9a-f-]{36})/.exec(conversation) ?? [];
  return id === undefined ? { timeout_ms: 60_000 } : { targets: [id], timeout_ms: 60_000 };
}

function codex(settings: string, name = "Postern"): Client {
  return {
    tools: () => ({
      read: execCommand("cat total.txt"),
      edit: [
        inCode("apply_patch", PATCH),
        { name: "apply_patch", input: PATCH },
        { name: "exec_command", input: { cmd: `printf '%s\n' '${RIGHT}' > total.txt` } },
      ],
      run: execCommand(COMMAND),
      delegate: [
        {
          name: "spawn_agent",
          input: { task_name: "count", message: SUBTASK, fork_turns: "none" },
        },
      ],
      wait: [{ name: "wait_agent", input: waitForAgent }],
    }),
    args: (_, task) => ["exec", "--skip-git-repo-check", "-s", "danger-full-access", task],
    env: ({ key, home }) => ({ POSTERN_API_KEY: key, CODEX_HOME: `${home}/.codex` }),
    files: ({ url, model }) => ({
      ".codex/config.toml": `model = "${model}"
model_provider = "postern"
model_context_window = 200000
web_search = "disabled"

[model_providers.postern]
name = "${name}"
base_url = "${url}/v1"
wire_api = "responses"
${settings}
`,
    }),
  };
}

const ENV_KEY = 'env_key = "POSTERN_API_KEY"\n';
const CODEX_HTTP = codex(`${ENV_KEY}supports_websockets = false`);
const CODEX_WEB_SOCKET = codex(`${ENV_KEY}supports_websockets = true`);
/** With a command for the key, Codex asks the gateway for its models. */
const CODEX_WITH_MODELS = codex(
  'supports_websockets = false\n[model_providers.postern.auth]\ncommand = "printenv"\nargs = ["POSTERN_API_KEY"]',
);

/** The header with which Codex offers its tool for images, as the guide says. */
export const CODEX_WITH_IMAGES = codex(
  `${ENV_KEY}supports_websockets = false\nhttp_headers = { "x-openai-actor-authorization" = "postern" }`,
);

const OPENCODE: Client = {
  tools: (file) => ({
    read: [{ name: "read", input: { filePath: file } }],
    edit: [
      { name: "edit", input: { filePath: file, oldString: WRONG, newString: RIGHT } },
      { name: "apply_patch", input: { patchText: PATCH } },
    ],
    run: [{ name: "bash", input: { command: COMMAND, description: "Run the check" } }],
    delegate: [
      {
        name: "task",
        input: { description: "Count lines", prompt: SUBTASK, subagent_type: "general" },
      },
    ],
  }),
  args: ({ model }, task) => ["run", "-m", `postern/${model}`, task],
  env: ({ key }) => ({ POSTERN_API_KEY: key, OPENCODE_DISABLE_AUTOUPDATE: "1" }),
  files: ({ url, model }) => ({
    ".config/opencode/opencode.json": JSON.stringify({
      $schema: "https://opencode.ai/config.json",
      autoupdate: false,
      share: "disabled",
      permission: { edit: "allow", bash: "allow" },
      provider: {
        postern: {
          npm: "@ai-sdk/openai-compatible",
          name: "Postern",
          options: { baseURL: `${url}/v1`, apiKey: "{env:POSTERN_API_KEY}" },
          models: { [model]: {} },
        },
      },
    }),
  }),
};

const GEMINI_CLI: Client = {
  tools: (file) => ({
    read: [{ name: "read_file", input: { file_path: file } }],
    edit: [
      {
        name: "replace",
        input: {
          file_path: file,
          instruction: "Correct the total.",
          old_string: WRONG,
          new_string: RIGHT,
        },
      },
    ],
    run: [{ name: "run_shell_command", input: { command: COMMAND, description: "Run the check" } }],
    delegate: [
      { name: "invoke_agent", input: { agent_name: "generalist", prompt: SUBTASK } },
      { name: "generalist", input: { request: SUBTASK } },
    ],
  }),
  args: ({ model }, task) => ["--model", model, "--approval-mode", "yolo", "--prompt", task],
  env: ({ url, key }) => ({
    GOOGLE_GEMINI_BASE_URL: url,
    GEMINI_API_KEY: key,
    GEMINI_CLI_TRUST_WORKSPACE: "true",
  }),
  files: () => ({
    ".gemini/settings.json": JSON.stringify({
      security: { auth: { selectedType: "gemini-api-key" } },
      privacy: { usageStatisticsEnabled: false },
      general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
    }),
  }),
};

/** With the name of OpenAI, which the guide offers, Codex sends fields for OpenAI alone. */
const CODEX_AS_OPENAI = codex(`${ENV_KEY}supports_websockets = false`, "OpenAI");

interface Run {
  readonly title: string;
  readonly name: ClientName;
  readonly client: Client;
  readonly model: string;
  /** The file of the requests that are recorded from this run. */
  readonly fileName?: string;
  /** Only in the full form: other runs have the same client settings or model, or recorded-requests.test.ts sends its requests. */
  readonly isFullOnly?: boolean;
}

export const CODEX_WITH_MODELS_TITLE = "Codex that lists the models";
const CLAUDE = "anthropic/claude-opus-5-5";
export const GPT = "openai/gpt-6.2-sol";
const GEMINI = "google/gemini-3.1-pro-preview";

/** Each client at its provider's API, and at another. */
export const RUNS: readonly Run[] = [
  {
    title: "Claude Code",
    name: "claude",
    client: CLAUDE_CODE,
    model: CLAUDE,
    fileName: "claude-code",
    isFullOnly: true,
  },
  { title: "Claude Code", name: "claude", client: CLAUDE_CODE, model: GPT },
  {
    title: "Codex",
    name: "codex",
    client: CODEX_HTTP,
    model: GPT,
    fileName: "codex",
    isFullOnly: true,
  },
  {
    title: "Codex",
    name: "codex",
    client: CODEX_HTTP,
    model: CLAUDE,
    fileName: "codex-other-model",
    isFullOnly: true,
  },
  {
    title: "Codex over WebSocket",
    name: "codex",
    client: CODEX_WEB_SOCKET,
    model: GPT,
    fileName: "codex-web-socket",
  },
  {
    title: "Codex over WebSocket",
    name: "codex",
    client: CODEX_WEB_SOCKET,
    model: CLAUDE,
    isFullOnly: true,
  },
  {
    title: "Codex with the provider name OpenAI",
    name: "codex",
    client: CODEX_AS_OPENAI,
    model: GPT,
    fileName: "codex-as-openai",
    isFullOnly: true,
  },
  {
    title: "Codex with the provider name OpenAI",
    name: "codex",
    client: CODEX_AS_OPENAI,
    model: CLAUDE,
    isFullOnly: true,
  },
  { title: CODEX_WITH_MODELS_TITLE, name: "codex", client: CODEX_WITH_MODELS, model: CLAUDE },
  {
    title: "opencode",
    name: "opencode",
    client: OPENCODE,
    model: GPT,
    fileName: "opencode",
    isFullOnly: true,
  },
  { title: "opencode", name: "opencode", client: OPENCODE, model: CLAUDE },
  {
    title: "Gemini CLI",
    name: "gemini",
    client: GEMINI_CLI,
    model: GEMINI,
    fileName: "gemini-cli",
  },
  { title: "Gemini CLI", name: "gemini", client: GEMINI_CLI, model: CLAUDE, isFullOnly: true },
];
