import { registerHooks } from 'node:module'
import { MUTANTS } from './mutants.ts'

/**
 * Puts a historical bug into the core as this thread is about to load it.
 *
 * @throws when a text to be replaced is not there exactly once: the core has changed, and the mutant must follow.
 */
export function mutate(name: string): void {
  const mutant = MUTANTS.find((each) => each.name === name)
  if (mutant === undefined) throw new Error(`There is no mutant ${name}.`)
  registerHooks({
    load: (url, context, nextLoad) => {
      const loaded = nextLoad(url, context)
      const edits = mutant.edits.filter(({ file }) => url.endsWith(`/packages/core/src/${file}`))
      if (edits.length === 0 || loaded.source === undefined || loaded.source === null) return loaded
      let source = Buffer.from(loaded.source as Uint8Array).toString()
      for (const { find, replace } of edits) source = replaceOnce(source, find, replace, url)
      return { ...loaded, source }
    },
  })
}

function replaceOnce(source: string, find: string, replace: string, url: string): string {
  const parts = source.split(find)
  if (parts.length !== 2) throw new Error(`${url} has ${parts.length - 1} times: ${find}`)
  return parts.join(replace)
}
