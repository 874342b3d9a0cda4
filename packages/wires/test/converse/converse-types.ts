// The parts of Converse's JSON that the tests read.

type Values = Readonly<Record<string, unknown>>;

export interface ConverseCachePoint {
  readonly cachePoint?: { readonly type: string; readonly ttl?: "5m" | "1h" };
}

interface ConverseImage {
  readonly format: string;
  readonly source: { readonly bytes?: string; readonly s3Location?: { readonly uri: string } };
}

export interface ConverseBlock extends ConverseCachePoint {
  readonly text?: string;
  readonly image?: ConverseImage;
  readonly document?: ConverseImage & { readonly name: string };
  readonly toolUse?: {
    readonly toolUseId: string;
    readonly name: string;
    readonly input?: unknown;
    readonly type?: string;
  };
  readonly toolResult?: {
    readonly toolUseId: string;
    readonly content: readonly ConverseBlock[];
    readonly status?: string;
  };
  readonly reasoningContent?: {
    readonly reasoningText?: { readonly text: string; readonly signature?: string };
    readonly redactedContent?: string;
  };
  readonly citationsContent?: {
    readonly content: readonly { readonly text: string }[];
    readonly citations: readonly Values[];
  };
}

export interface ConverseMessage {
  readonly role: string;
  readonly content: readonly ConverseBlock[];
}

interface ConverseTool extends ConverseCachePoint {
  readonly toolSpec?: {
    readonly name: string;
    readonly description?: string;
    readonly inputSchema: { readonly json: Values };
    readonly strict?: boolean;
  };
}

export interface ConverseBody {
  readonly messages: readonly ConverseMessage[];
  readonly system?: readonly ConverseBlock[];
  readonly inferenceConfig?: {
    readonly maxTokens?: number;
    readonly temperature?: number;
    readonly topP?: number;
    readonly stopSequences?: readonly string[];
  };
  readonly toolConfig?: {
    readonly tools: readonly ConverseTool[];
    readonly toolChoice?: {
      readonly auto?: Values;
      readonly any?: Values;
      readonly tool?: { readonly name: string };
    };
  };
  readonly additionalModelRequestFields?: Values;
  readonly additionalModelResponseFieldPaths?: readonly string[];
  readonly outputConfig?: {
    readonly textFormat: {
      readonly type: string;
      readonly structure: {
        readonly jsonSchema: {
          readonly schema: string;
          readonly name?: string;
          readonly description?: string;
        };
      };
    };
  };
  readonly requestMetadata?: Readonly<Record<string, string>>;
  readonly serviceTier?: { readonly type: string };
}

export interface ConverseReply {
  readonly output?: { readonly message: ConverseMessage };
  readonly stopReason?: string;
  readonly usage?: { readonly totalTokens?: number };
  readonly message?: string;
}

/** The payload of any stream event. */
export interface ConverseEvent {
  readonly contentBlockIndex?: number;
  readonly start?: ConverseBlock;
  readonly delta?: {
    readonly text?: string;
    readonly toolUse?: { readonly input: string };
    readonly toolResult?: readonly Values[];
    readonly reasoningContent?: {
      readonly text?: string;
      readonly signature?: string;
      readonly redactedContent?: string;
    };
    readonly citation?: Values;
  };
  readonly stopReason?: string;
  readonly usage?: { readonly totalTokens?: number };
}
