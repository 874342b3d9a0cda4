// The parts of Gemini's JSON that the tests read.

type Values = Readonly<Record<string, unknown>>;

export interface GeminiData {
  readonly mimeType: string;
  readonly data: string;
}

interface GeminiCall {
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly args?: unknown;
  readonly partialArgs?: readonly Values[];
  readonly willContinue?: boolean;
}

export interface GeminiPart {
  readonly text?: string;
  readonly thought?: boolean | undefined;
  readonly thoughtSignature?: string | undefined;
  readonly functionCall?: GeminiCall;
  readonly functionResponse?: {
    readonly id?: string;
    readonly name: string;
    readonly response: {
      readonly output?: string | readonly string[];
      readonly error?: string | readonly string[];
    };
    readonly parts?: readonly { readonly inlineData: GeminiData }[];
  };
  readonly inlineData?: GeminiData;
  readonly executableCode?: Values;
  readonly codeExecutionResult?: Values;
}

export interface GeminiContent {
  readonly role?: string;
  readonly parts?: readonly GeminiPart[];
}

export interface GeminiConfig {
  readonly thinkingConfig?: {
    readonly thinkingLevel?: string;
    readonly thinkingBudget?: number;
    readonly includeThoughts?: boolean;
  };
  readonly responseMimeType?: string;
  readonly responseJsonSchema?: Values;
  readonly responseLogprobs?: boolean;
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly seed?: number;
  readonly frequencyPenalty?: number;
  readonly presencePenalty?: number;
  readonly stopSequences?: readonly string[];
  readonly candidateCount?: number;
}

export interface GeminiBody {
  readonly contents: readonly GeminiContent[];
  readonly systemInstruction?: GeminiContent;
  readonly tools?: readonly {
    readonly functionDeclarations?: readonly {
      readonly name: string;
      readonly description?: string;
      readonly parametersJsonSchema?: Values;
    }[];
  }[];
  readonly toolConfig?: {
    readonly functionCallingConfig?: {
      readonly mode?: string;
      readonly allowedFunctionNames?: readonly string[];
    };
  };
  readonly generationConfig?: GeminiConfig;
  readonly serviceTier?: string;
}

export interface GeminiCandidate {
  readonly index?: number;
  readonly content?: GeminiContent;
  readonly finishReason?: string | undefined;
  readonly finishMessage?: string;
  readonly groundingMetadata?: Values;
  readonly urlContextMetadata?: Values;
  readonly citationMetadata?: Values;
  readonly logprobsResult?: Values;
}

export interface GeminiChunk {
  readonly responseId?: string | undefined;
  readonly modelVersion?: string | undefined;
  readonly createTime?: string;
  readonly candidates?: readonly GeminiCandidate[];
  readonly promptFeedback?: { readonly blockReason?: string };
  usageMetadata?: {
    readonly promptTokenCount?: number;
    readonly cachedContentTokenCount?: number;
    readonly candidatesTokenCount?: number;
    readonly thoughtsTokenCount?: number;
    readonly toolUsePromptTokenCount?: number;
    readonly totalTokenCount?: number;
    readonly serviceTier?: string;
    readonly trafficType?: string;
    readonly promptTokensDetails?: readonly Values[];
  };
  readonly error?: {
    readonly code: number;
    readonly status: string;
    readonly message: string;
  };
}
