// Gemini's code execution: a tool without settings; in the reply two parts, the code and its result.

import type { NativePart } from "../canonical/canonical-parts.ts";
import type {
  CodeReplyForm,
  CodeRequestForm,
} from "../canonical/tools/canonical-code-execution.ts";
import { type JsonObject, objectIn, stringIn } from "../json-fields.ts";
import { findServerTool, withServerTool } from "./gemini-server-tools.ts";

export const geminiCode: CodeRequestForm = {
  read: (request) => findServerTool(request, /^codeExecution$/),
  write: (request, tool, target, losses) =>
    withServerTool(request, { tool, title: "code execution", target }, losses, {
      codeExecution: {},
    }),
};

export const geminiCodeReply: CodeReplyForm = {
  createReader() {
    let code = "";
    return ({ value }) => {
      const written = objectIn(value["executableCode"]);
      if (written !== undefined) {
        code = stringIn(written["code"]) ?? "";
        return { kind: "pending" };
      }
      const result = objectIn(value["codeExecutionResult"]);
      if (result === undefined) return undefined;
      const isFailed = result["outcome"] !== "OUTCOME_OK";
      const text = stringIn(result["output"]) ?? "";
      return {
        kind: "call",
        call: { code, output: isFailed ? "" : text, error: isFailed ? text : "", isFailed },
      };
    };
  },
  writeCall: ({ code, output, error, isFailed }) => [
    nativePart({ executableCode: { language: "PYTHON", code } }),
    nativePart({
      codeExecutionResult: {
        outcome: isFailed ? "OUTCOME_FAILED" : "OUTCOME_OK",
        output: isFailed ? error : output,
      },
    }),
  ],
};

function nativePart(value: JsonObject): NativePart {
  return { type: "native", wire: "gemini", value };
}
