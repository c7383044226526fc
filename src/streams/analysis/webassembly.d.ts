// Declares the subset of WebAssembly that this module uses.
// TypeScript declares it only in its DOM library, which is not used here.

declare namespace WebAssembly {
  class Memory {
    constructor(options: { initial: number; maximum: number; shared: true })
    readonly buffer: SharedArrayBuffer
  }
  class Module {
    constructor(bytes: Uint8Array)
  }
  class Instance {
    constructor(module: Module, imports: Record<string, Record<string, unknown>>)
    readonly exports: Record<string, unknown>
  }
}
