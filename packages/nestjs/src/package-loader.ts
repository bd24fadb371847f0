import { ConfigurationError } from '@onceward/core'

/**
 * Loads a package that only some applications have.
 *
 * @throws {@link ConfigurationError} if it is not installed.
 */
export async function loadFor<Loaded>(
  caller: string,
  name: string,
  load: () => Promise<Loaded>,
): Promise<Loaded> {
  try {
    return await load()
  } catch (error) {
    const isMissing =
      Reflect.get(Object(error), 'code') === 'ERR_MODULE_NOT_FOUND' &&
      String(Reflect.get(Object(error), 'message')).includes(`'${name}'`)
    if (!isMissing) throw error
    throw new ConfigurationError(`${caller} needs the package ${name}: npm install ${name}`, {
      cause: error,
    })
  }
}
