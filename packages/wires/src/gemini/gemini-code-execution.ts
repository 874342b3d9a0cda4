import type {
  CodeReplyForm,
  CodeRequestForm,
} from "../canonical/tools/canonical-code-execution.ts";
// Gemini's code execution: a tool without settings; in the reply two parts, the code and its result.
import { objectIn, stringIn } from "../json-fields.ts";
import { withServerTool } from "./gemini-server-tools.ts";

export const geminiCode: CodeRequestForm = {
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
  writeCall: () => [],
};
