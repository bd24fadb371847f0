/** A table by the name of the broker. The process has one of each name: two copies of this package may be loaded. */
export function processTable<Entry>(name: string): Map<string, Entry> {
  const key = Symbol.for(`onceward.${name}`)
  const shared = globalThis as { [key: symbol]: Map<string, Entry> | undefined }
  shared[key] ??= new Map()
  return shared[key]
}
