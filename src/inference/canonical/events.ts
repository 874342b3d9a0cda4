// A streamed reply in canonical form.
import type {
  NativeFields,
  OpaqueBlob,
  Citation,
  TokenLogprob,
  ImagePart,
  FilePart,
  MediaPart,
  NativePart,
} from "./parts.ts";
import type { Finish, CanonicalReply, UsageReport } from "./reply.ts";
import type { CanonicalError } from "./error.ts";

/** How a part begins in a stream. What comes whole (an image, a native part) is given whole and has no deltas. */
export type PartHead =
  | { readonly type: "text" }
  | { readonly type: "refusal" }
  | {
      readonly type: "reasoning";
      readonly summary?: true | undefined;
      readonly id?: string | undefined;
    }
  | {
      readonly type: "tool_call";
      readonly id: string;
      readonly name: string;
      readonly custom?: true | undefined;
      readonly signature?: OpaqueBlob | undefined;
      readonly native?: NativeFields | undefined;
    }
  | { readonly type: "whole"; readonly value: ImagePart | MediaPart | FilePart | NativePart };

/**
 * A stream is: start; then for each choice parts, numbered from 0 in the order in which they start, each part_start,
 * deltas, part_end; a finish for each choice after its parts have ended. `usage` may come at any time, the last one holds.
 * `error` ends everything. Parts of one choice may overlap only where the provider interleaves them.
 */
export type CanonicalEvent =
  | (Pick<CanonicalReply, "id" | "model" | "createdSeconds" | "serviceTier"> & {
      readonly type: "start";
    })
  | (PartPosition & { readonly type: "part_start"; readonly head: PartHead })
  | (PartPosition & TextDelta)
  /** The blob of a reasoning or text part, whole, after its text. */
  | (PartPosition & { readonly type: "blob"; readonly blob: OpaqueBlob })
  | (PartPosition & { readonly type: "citation"; readonly citation: Citation })
  | (PartPosition & { readonly type: "part_end" })
  | { readonly type: "finish"; readonly choice: number; readonly finish: Finish }
  | { readonly type: "usage"; readonly report: UsageReport }
  | { readonly type: "error"; readonly error: CanonicalError };

export interface PartPosition {
  readonly choice: number;
  readonly part: number;
}

/** More of a text, refusal or reasoning part, or of a tool call's arguments. Never "" unless it carries `logprobs`. */
interface TextDelta {
  readonly type: "delta";
  readonly text: string;
  readonly logprobs?: readonly TokenLogprob[] | undefined;
}
