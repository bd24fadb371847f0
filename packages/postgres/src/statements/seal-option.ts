import { ConfigurationError } from '@onceward/core'
import { hasMethod } from '@onceward/core/adapter'

/** @throws {@link ConfigurationError} */
export function refuseUnfitSeal(caller: string, seal: unknown): void {
  if (seal === undefined || (hasMethod(seal, 'seal') && hasMethod(seal, 'open'))) return
  throw new ConfigurationError(
    `Expected \`seal\` of ${caller} to be \`{ seal, open }\`, two functions, as the guard has them.`,
  )
}
