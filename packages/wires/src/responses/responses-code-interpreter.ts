// OpenAI's and xAI's code interpreter: a tool in the request, an item in the reply.

import type { Loss } from "../canonical/canonical-losses.ts";
import {
  type CodeReplyForm,
  type CodeRequestForm,
  FOREIGN_CONTAINER,
} from "../canonical/tools/canonical-code-execution.ts";
import {
  arrayIn,
  isObject,
  isSet,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
  unknownFields,
} from "../json-fields.ts";
import {
  takeNativeTool,
  otherToolFields,
  withNativeField,
  withTool,
  withoutIncluded,
} from "../server-tool-fields.ts";

const TYPE = "code_interpreter";
const OUTPUTS = "code_interpreter_call.outputs";
const FIELDS: ReadonlySet<string> = new Set(["type", "container"]);
const CONTAINER_FIELDS: ReadonlySet<string> = new Set(["type", "memory_limit", "network_policy"]);
const DEFAULT_MEMORY = "1g";

export const responsesCode: CodeRequestForm = {
  read(request) {
    const taken = takeNativeTool(request, "responses", /^code_interpreter$/);
    if (taken === undefined) return undefined;
    const { value, path, isRequired, rest } = taken;
    const losses = [
      ...otherToolFields(unknownFields(value, FIELDS), path, "responses"),
      ...containerLosses(value["container"], `${path}.container`),
    ];
    return {
      tool: { path, isRequired, losses },
      rest: withoutIncluded(rest, OUTPUTS),
    };
  },
  write(request, { isRequired }, { provider }, losses) {
    // xAI creates the container itself.
    const container = provider === "xai" ? undefined : { type: "auto" };
    const sent = withTool(request, "responses", TYPE, { type: TYPE, container });
    const included =
      provider === "xai"
        ? sent
        : withNativeField(sent, "responses", { include: [OUTPUTS] }, losses);
    return isRequired === true
      ? { ...included, toolChoice: { type: "native", wire: "responses", value: { type: TYPE } } }
      : included;
  },
};

function containerLosses(container: unknown, path: string): readonly Loss[] {
  if (!isObject(container))
    return isSet(container)
      ? [{ path, reason: "The container is stored at another provider." }]
      : [];
  const { memory_limit: memory = DEFAULT_MEMORY, network_policy: policy } = container;
  const losses = [
    ...otherToolFields(unknownFields(container, CONTAINER_FIELDS), path, "responses"),
  ];
  if (memory !== null && memory !== DEFAULT_MEMORY) {
    const reason = "This provider chooses the memory of the container.";
    losses.push({ path: `${path}.memory_limit`, reason, hint: true });
  }
  if ((objectIn(policy)?.["type"] ?? "disabled") !== "disabled") {
    const reason = "Code has no network access at this model's provider.";
    losses.push({ path: `${path}.network_policy`, reason });
  }
  return losses;
}

export const responsesCodeReply: CodeReplyForm = {
  createReader:
    () =>
    ({ value }) => {
      if (value["type"] !== "code_interpreter_call") return undefined;
      const outputs = arrayIn(value["outputs"]).filter(isObject);
      const logs = outputs.flatMap((one) => stringIn(one["logs"]) ?? []);
      const isFailed = value["status"] === "failed" || value["status"] === "incomplete";
      return {
        kind: "call",
        call: { code: codeIn(value), output: logs.join("\n"), error: "", isFailed },
        isPartial: outputs.length > logs.length || undefined,
      };
    },
  writeCall: ({ code, output, error, isFailed }, id) => {
    const logs = [output, error].filter((text) => text !== "").join("\n");
    const value = {
      id: `ci_${id}`,
      type: "code_interpreter_call",
      // A run that ended with an error is complete, too; its logs have the error.
      status: isFailed && logs === "" ? "failed" : "completed",
      code,
      container_id: FOREIGN_CONTAINER + id,
      outputs: logs === "" ? [] : [{ type: "logs", logs }],
    };
    return [{ type: "native", wire: "responses", value }];
  },
};

/** xAI has it in the arguments of the call. */
function codeIn({ code, arguments: text }: JsonObject): string {
  return stringIn(code) ?? stringIn(parseObject(stringIn(text) ?? "")?.["code"]) ?? "";
}
