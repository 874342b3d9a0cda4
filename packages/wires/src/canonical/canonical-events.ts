// A streamed reply in canonical form.

import type { JsonObject } from "../json-fields.ts";
import type { CanonicalError } from "./canonical-error.ts";
import type {
  Citation,
  FilePart,
  ImagePart,
  MediaPart,
  NativeFields,
  NativePart,
  OpaqueBlob,
  TokenLogprob,
} from "./canonical-parts.ts";
import type { CanonicalReply, Finish, UsageReport } from "./canonical-reply.ts";

/** The start of a part. A "whole" part, such as an image, has no deltas. */
export type PartHead =
  | {
      readonly type: "text";
      /** The model signs the text; the signature arrives after the text has ended. */
      readonly isSignedLater?: true | undefined;
    }
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
      readonly item?: JsonObject | undefined;
      readonly signature?: OpaqueBlob | undefined;
      readonly native?: NativeFields | undefined;
    }
  | { readonly type: "whole"; readonly value: ImagePart | MediaPart | FilePart | NativePart };

/**
 * The order of a stream: `start`; for each choice its parts (`part_start`, deltas, `part_end`), numbered from 0 by start,
 * which overlap only if the provider interleaves them; then the choice's `finish`. `usage` may come at any time, and the
 * last one is final. `error` ends the stream.
 */
export type CanonicalEvent =
  | (Pick<CanonicalReply, "id" | "model" | "createdSeconds" | "serviceTier"> & {
      readonly type: "start";
    })
  | (PartPosition & { readonly type: "part_start"; readonly head: PartHead })
  | (PartPosition & TextDelta)
  /** The complete blob of a reasoning or text part, after its text. */
  | (PartPosition & { readonly type: "blob"; readonly blob: OpaqueBlob })
  | (PartPosition & { readonly type: "citation"; readonly citation: Citation })
  | (PartPosition & { readonly type: "part_end" })
  | { readonly type: "finish"; readonly choice: number; readonly finish: Finish }
  | { readonly type: "usage"; readonly report: UsageReport }
  | { readonly type: "error"; readonly error: CanonicalError };

interface PartPosition {
  readonly choice: number;
  readonly part: number;
}

/** Text of a text, refusal or reasoning part, or of a call's arguments. Empty only with `logprobs`. */
interface TextDelta {
  readonly type: "delta";
  readonly text: string;
  readonly logprobs?: readonly TokenLogprob[] | undefined;
}
