declare module "*.md" {
  const text: string;
  export default text;
}

declare module "*.png" {
  const path: string;
  export default path;
}
