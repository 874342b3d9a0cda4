// Models that their provider has shut down or never sold under this name. Their prices are kept for old records; they cannot
// be called.

export const RETIRED: Readonly<Record<string, RegExp>> = {
  openai:
    /^(gpt-3\.5-0301|gpt-3\.5-turbo-(0613|1106|16k)|gpt-4-32k|gpt-4-vision-preview|gpt-4\.5-preview|o1-(mini|preview)|codex-mini|gpt-5\.3|chatgpt-4o-latest|gpt-4o:extended|gpt-oss.*|ft:.*|gpt-4o-mini-2024-07-18\.ft-|gpt-image-1)$/,
  azure:
    /^(gpt-3\.5-0301|gpt-3\.5-turbo-(0613|1106|16k)|o3-2025-04-16|wizardlm.*|phi-3.*|gpt-4-32k|gpt-4-vision-preview|gpt-4\.5-preview|o1-(mini|preview)|codex-mini|gpt-5\.3|chatgpt-4o-latest|gpt-4o:extended|gpt-oss.*|ft:.*|gpt-4o-mini-2024-07-18\.ft-|curie|davinci|babbage|grok-(2|3|code|build|voice).*)$/,
  anthropic: /^claude-(v1|2|3-.*|opus-4-0|sonnet-4-0)$/,
  google: /^(gemini-(1|pro|flash-1|pro-1).*|gemini-2\.[05]-flash-preview|gemini-2\.0.*|gemma.*)$/,
  vertex:
    /^(gemini-(1|pro|flash-1|pro-1).*|gemini-2\.[05]-flash-preview|gemini-2\.0.*|gemma-[23].*|claude-3.*)$/,
  deepseek: /^deepseek-(chat|reasoner|v3.*)$/,
  groq: /^(gemma.*|llama-3\.1-(405b|70b).*|llama-3\.2.*|llama-3\.3-70b-specdec|llama-guard-3.*|llama2.*|llama3.*|mistral-saba.*|mixtral.*|deepseek-r1.*)$/,
  together:
    /^(?!meta-llama\/(Llama-3\.3|Llama-4|Meta-Llama-3\.[13])|deepseek-ai\/DeepSeek-V4|moonshotai\/Kimi-K3|zai-org\/GLM-5|openai\/gpt-oss|MiniMaxAI\/MiniMax-M3|Qwen\/Qwen3\.[567]|black-forest-labs\/FLUX\.1-schnell$).*$/,
  bedrock: /claude-3-|titan/,
  xai: /^grok-2.*$/,
  perplexity: /^(llama-3\.1-sonar.*|r1-1776|sonar-pro-search|sonar-reasoning)$/,
  mistral:
    /^(mistral-medium-2312|mistral-7b|mixtral.*|ministral-3b|mistral-tiny|mistral-small-.*-instruct.*)$/,
};
