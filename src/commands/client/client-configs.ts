// The configuration files of coding agents, as functions from what a file contains to what it should contain.

import path from "node:path";
import { invalid } from "../../base/fault.ts";
import { isObject, type JsonObject, mustBeObject, objectIn } from "../../base/json.ts";
import { keyFolder } from "./key-file.ts";

export interface ClientModel {
  readonly id: string;
  readonly contextTokens: number;
  readonly outputTokens: number;
}

export interface ClientTarget {
  readonly home: string;
  readonly url: string;
  readonly key: string;
  readonly model: ClientModel;
  /** All models that the gateway can call now, the chosen one first. */
  readonly models: readonly ClientModel[];
}

export interface FileChange {
  readonly file: string;
  readonly text: string;
}

interface ConfigFile {
  readonly file: string;
  readonly next: (current: string | undefined) => string;
}

type ClientConfig = (target: ClientTarget) => {
  readonly files: readonly ConfigFile[];
  /** How to start the client. */
  readonly start: string;
};

/** A longer list is of no use in a picker and makes the file unreadable. */
const MODELS_MAX = 50;

export const CLIENT_CONFIGS: Readonly<Record<string, ClientConfig>> = {
  claude: ({ home, url, key, model }) => ({
    files: [
      {
        file: path.join(home, ".claude/settings.json"),
        next: mergeJson({
          env: {
            ANTHROPIC_BASE_URL: url,
            ANTHROPIC_AUTH_TOKEN: key,
            ANTHROPIC_MODEL: model.id,
            CLAUDE_CODE_MAX_CONTEXT_TOKENS: String(model.contextTokens),
            CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(model.outputTokens),
          },
        }),
      },
    ],
    start: "claude",
  }),
  codex: ({ home, url, key, model }) => ({
    files: [
      {
        file: path.join(home, ".codex/config.toml"),
        next: codexConfig(url, model),
      },
      {
        // Codex reads this file at its start.
        file: path.join(home, ".codex/.env"),
        next: replaceLines({ POSTERN_API_KEY: key }, "="),
      },
    ],
    start: "codex",
  }),
  opencode: ({ home, url, key, models, model }) => ({
    files: [
      {
        file: path.join(home, ".config/opencode/opencode.json"),
        next: mergeJson({
          $schema: "https://opencode.ai/config.json",
          model: `postern/${model.id}`,
          provider: {
            postern: {
              npm: "@ai-sdk/openai-compatible",
              name: "Postern",
              options: { baseURL: `${url}/v1`, apiKey: `{file:${tokenFile(home, url)}}` },
              models: Object.fromEntries(
                models
                  .slice(0, MODELS_MAX)
                  .map(({ id, contextTokens, outputTokens }) => [
                    id,
                    { limit: { context: contextTokens, output: outputTokens } },
                  ]),
              ),
            },
          },
        }),
      },
      { file: tokenFile(home, url), next: () => key },
    ],
    start: `opencode -m postern/${model.id}`,
  }),
  aider: ({ home, url, key, model }) => ({
    files: [
      {
        file: path.join(home, ".aider.conf.yml"),
        next: replaceLines(
          {
            model: `openai/${model.id}`,
            "openai-api-base": `${url}/v1`,
            "openai-api-key": key,
          },
          ": ",
        ),
      },
      {
        file: path.join(home, ".aider.model.metadata.json"),
        next: mergeJson({
          [`openai/${model.id}`]: {
            max_input_tokens: model.contextTokens,
            max_output_tokens: model.outputTokens,
            litellm_provider: "openai",
            mode: "chat",
          },
        }),
      },
    ],
    start: "aider",
  }),
  pi: ({ home, url, key, models }) => ({
    files: [
      {
        file: path.join(home, ".pi/agent/models.json"),
        next: mergeJson({
          providers: {
            postern: {
              baseUrl: `${url}/v1`,
              api: "openai-completions",
              apiKey: key,
              models: models.slice(0, MODELS_MAX).map(({ id, contextTokens, outputTokens }) => ({
                id,
                contextWindow: contextTokens,
                maxTokens: outputTokens,
              })),
            },
          },
        }),
      },
    ],
    start: "pi --provider postern",
  }),
  cursor: ({ home, url, key }) => ({
    files: [
      {
        file: path.join(home, ".cursor/mcp.json"),
        next: mergeJson({
          mcpServers: {
            postern: { url: `${url}/mcp`, headers: { Authorization: `Bearer ${key}` } },
          },
        }),
      },
    ],
    start: `cursor (for its models, set "Override OpenAI Base URL" to ${url}/v1 in its settings)`,
  }),
};

function tokenFile(home: string, url: string): string {
  return path.join(keyFolder(home), `${new URL(url).host.replaceAll(":", "-")}.key`);
}

/** Sets the given members and keeps all others. */
function mergeJson(members: JsonObject): ConfigFile["next"] {
  return (current) => {
    let parsed: unknown = {};
    try {
      if (current !== undefined && current.trim() !== "") parsed = JSON.parse(current);
    } catch {
      throw invalid(undefined, "The file is not JSON, so it cannot be changed. Edit it by hand.");
    }
    return `${JSON.stringify(merged(mustBeObject(parsed, "the file"), members), null, 2)}\n`;
  };
}

function merged(base: JsonObject, members: JsonObject): JsonObject {
  const result: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(members)) {
    const before = objectIn(result[name]);
    result[name] = isObject(value) && before !== undefined ? merged(before, value) : value;
  }
  return result;
}

/** Sets `name: value` lines and keeps all others. */
function replaceLines(
  values: Readonly<Record<string, string>>,
  separator: string,
): ConfigFile["next"] {
  return (current = "") => {
    const names = Object.keys(values);
    const isReplaced = (line: string): boolean =>
      names.some((name) => line.startsWith(`${name}${separator.trim()}`));
    const before = current.trimEnd();
    const kept = before.split("\n").filter((line) => before !== "" && !isReplaced(line));
    const lines = Object.entries(values).map(([name, value]) => `${name}${separator}${value}`);
    return `${[...kept, ...lines].join("\n")}\n`;
  };
}

const CODEX_TABLE = "[model_providers.postern]";

/** TOML's top-level keys come before the first table, and a key must not appear twice. */
function codexConfig(url: string, model: ClientModel): ConfigFile["next"] {
  const top = {
    model: JSON.stringify(model.id),
    model_provider: '"postern"',
    model_context_window: String(model.contextTokens),
    web_search: '"disabled"',
  };
  const table = [
    CODEX_TABLE,
    'name = "Postern"',
    `base_url = ${JSON.stringify(`${url}/v1`)}`,
    'env_key = "POSTERN_API_KEY"',
    'wire_api = "responses"',
    "supports_websockets = true",
  ];
  return (current = "") => {
    const lines = withoutTable(current.split("\n"), CODEX_TABLE);
    const firstTable = lines.findIndex((line) => line.trimStart().startsWith("["));
    const end = firstTable === -1 ? lines.length : firstTable;
    const isReplaced = (line: string): boolean =>
      Object.keys(top).some((name) => new RegExp(`^\\s*${name}\\s*=`).test(line));
    const kept = lines.slice(0, end).filter((line) => !isReplaced(line));
    const own = Object.entries(top).map(([name, value]) => `${name} = ${value}`);
    const text = [...own, ...kept, ...lines.slice(end)].join("\n").trimEnd();
    return `${text}\n\n${table.join("\n")}\n`;
  };
}

function withoutTable(lines: readonly string[], header: string): readonly string[] {
  const start = lines.findIndex((line) => line.trim() === header);
  if (start === -1) return lines;
  const length = lines.slice(start + 1).findIndex((line) => line.trimStart().startsWith("["));
  return [...lines.slice(0, start), ...(length === -1 ? [] : lines.slice(start + 1 + length))];
}
