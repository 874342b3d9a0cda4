// Anthropic's code execution: a tool in the request; in the reply a call, which is Python or a shell command, and its result.

import type {
  CodeReplyForm,
  CodeRequestForm,
} from "../canonical/tools/canonical-code-execution.ts";
import { arrayIn, objectIn, stringIn, unknownFields } from "../json-fields.ts";
import { takeNativeTool, otherToolFields, withTool } from "../server-tool-fields.ts";
import { FOREIGN_USE, nativeBlock } from "./messages-server-calls.ts";

/** The version that every model takes. */
const TOOL_TYPE = "code_execution_20250825";
const NAME = "code_execution";
const FIELDS: ReadonlySet<string> = new Set(["type", "name"]);
/** The field of a call's input that has the code. */
const CODE_FIELDS: ReadonlyMap<unknown, string> = new Map([
  [NAME, "code"],
  ["bash_code_execution", "command"],
]);
const RESULT = /^(bash_)?code_execution_tool_result$/;

export const messagesCode: CodeRequestForm = {
  read(request) {
    const taken = takeNativeTool(request, "messages", /^code_execution_\d{8}$/);
    if (taken === undefined) return undefined;
    const { value, path, isRequired, rest } = taken;
    return {
      tool: {
        path,
        isRequired,
        losses: otherToolFields(unknownFields(value, FIELDS), path, "messages"),
      },
      rest,
    };
  },
  write(request, { isRequired }) {
    const sent = withTool(request, "messages", NAME, { type: TOOL_TYPE, name: NAME });
    return isRequired === true ? { ...sent, toolChoice: { type: "tool", name: NAME } } : sent;
  },
};

export const messagesCodeReply: CodeReplyForm = {
  createReader() {
    const codes = new Map<unknown, string>();
    return ({ value }) => {
      const { type, name, id, tool_use_id: callId } = value;
      const field = CODE_FIELDS.get(name);
      if (type === "server_tool_use" && field !== undefined) {
        codes.set(id, stringIn(objectIn(value["input"])?.[field]) ?? "");
        return { kind: "pending" };
      }
      const code = codes.get(callId);
      if (code === undefined || typeof type !== "string" || !RESULT.test(type)) return undefined;
      const result = objectIn(value["content"]) ?? {};
      const failure = stringIn(result["error_code"]);
      const error = failure ?? stringIn(result["stderr"]) ?? "";
      const isFailed = failure !== undefined || (result["return_code"] ?? 0) !== 0;
      return {
        kind: "call",
        call: { code, output: stringIn(result["stdout"]) ?? "", error, isFailed },
        isPartial: arrayIn(result["content"]).length > 0 || undefined,
      };
    };
  },
  writeCall({ code, output, error, isFailed }, id) {
    const caller = { type: "direct" };
    const use = FOREIGN_USE + id;
    const content = {
      type: "code_execution_result",
      stdout: output,
      stderr: error,
      return_code: isFailed ? 1 : 0,
      content: [],
    };
    return [
      nativeBlock({ type: "server_tool_use", id: use, name: NAME, input: { code }, caller }),
      nativeBlock({ type: "code_execution_tool_result", tool_use_id: use, content }),
    ];
  },
};
