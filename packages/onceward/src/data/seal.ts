import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Seal } from '@onceward/core'
import { hasMethod, messageOf } from '@onceward/core/adapter'
import { usage } from '../failure.ts'
import { bytes } from '../render/units.ts'
import { visible } from '../render/visible.ts'

/**
 * The `seal` of the guards, from a module of the user. Undefined: none is named.
 *
 * @throws {@link Failure} that names the file.
 */
export async function loadSeal(named: string | undefined): Promise<Seal | undefined> {
  if (named === undefined) return undefined
  const file = resolve(named)
  let module: object
  try {
    module = await import(pathToFileURL(file).href)
  } catch (error) {
    throw usage(`${visible(file)} cannot be loaded: ${messageOf(error)}`)
  }
  if (hasMethod(module, 'seal') && hasMethod(module, 'open')) return module as unknown as Seal
  throw usage(
    `${visible(file)} has no \`seal\` and \`open\`: write \`export const { seal, open } = aesSeal(…)\`, as the guard has them.`,
  )
}

export const SEAL_OPTION =
  'module that exports `seal` and `open`, as the guards have them: opens what is sealed'

/** What is shown in place of what cannot be opened. */
export function sealedNote(size: number, error: unknown): string {
  return error === undefined
    ? `sealed, ${bytes(size)}. To open it: --seal ./seal.js, a module that exports \`seal\` and \`open\` as its guard has them.`
    : `sealed, ${bytes(size)}. ${messageOf(error)}`
}
