import type { ModulesContainer } from '@nestjs/core'
import type { Wrapper } from './handlers.ts'
import { nameOf } from './options.ts'

/**
 * The providers that a handler uses, and that end in `onModuleDestroy` before consumers drain: a handler that still runs
 * would find them closed. Nest ends the root module first, then modules that are imported, in reverse order of their
 * imports.
 *
 * @param ours - A provider of our module.
 */
export function endedTooEarly(
  modules: ModulesContainer,
  ours: object,
  handlers: readonly Wrapper[],
): readonly string[] {
  const order = [...modules.values()].toSorted((one, other) => other.distance - one.distance)
  const placeOf = ({ host }: Wrapper): number => (host === undefined ? -1 : order.indexOf(host))
  const isOurs = (wrapper: Wrapper): boolean => wrapper.instance === ours
  const own = order.findIndex(({ providers }) => [...providers.values()].some(isOurs))
  const early = [...dependenciesOf(handlers)].filter(
    (wrapper) => placeOf(wrapper) > own && isEnded(wrapper),
  )
  return early.map((wrapper) => `${shown(wrapper)} of ${nameOf(wrapper.host?.metatype)}`)
}

const hasHook = (instance: unknown): boolean =>
  typeof Reflect.get(Object(instance), 'onModuleDestroy') === 'function'

/** What a factory has made is mostly ended by the class of its module. */
const isEnded = ({ host, instance, isNotMetatype }: Wrapper): boolean =>
  hasHook(instance) || (isNotMetatype && hasHook(host?.instance))

const shown = ({ isNotMetatype, metatype, name }: Wrapper): string =>
  isNotMetatype ? String(name) : nameOf(metatype)

/** What Nest has injected into them, and into that. */
function dependenciesOf(wrappers: readonly Wrapper[]): ReadonlySet<Wrapper> {
  const found = new Set<Wrapper>()
  const look = (wrapper: Wrapper): void => {
    const given = [
      ...(wrapper.getCtorMetadata() ?? []),
      ...(wrapper.getPropertiesMetadata() ?? []).map((property) => property.wrapper),
    ]
    for (const each of given) {
      if (each === undefined || found.has(each)) continue
      found.add(each)
      look(each)
    }
  }
  wrappers.forEach(look)
  return found
}
