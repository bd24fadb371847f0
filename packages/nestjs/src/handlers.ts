import type { Type } from '@nestjs/common'
import {
  ContextIdFactory,
  type DiscoveryService,
  type ExternalContextCreator,
  type MetadataScanner,
  type ModuleRef,
} from '@nestjs/core'
import { ConfigurationError } from '@onceward/core'
import { CONTEXT_TYPE, type OncewardContext } from './context.ts'
import { type ConsumerMark, marksOf } from './decorators.ts'
import { writtenMethod } from './once-at.ts'
import { nameOf } from './options.ts'

/** How Nest describes a provider or a controller. */
export type Wrapper = ReturnType<DiscoveryService['getProviders']>[number]

/** What is used of Nest. */
export interface NestParts {
  readonly discovery: DiscoveryService
  readonly scanner: MetadataScanner
  readonly external: ExternalContextCreator
  readonly moduleRef: ModuleRef
}

/** A method with a decorator of ours. */
export interface FoundHandler {
  readonly mark: ConsumerMark
  readonly wrapper: Wrapper
  readonly key: string
}

/** The methods of a class that Nest knows, its parents' included. */
export function methodsOf(
  { scanner }: Pick<NestParts, 'scanner'>,
  wrapper: Wrapper,
): readonly { readonly prototype: object; readonly key: string; readonly method: object }[] {
  const prototype = prototypeOf(wrapper)
  if (prototype === undefined) return []
  return scanner.getAllMethodNames(prototype).map((key) => ({
    ...{ prototype, key },
    method: Reflect.get(prototype, key) as object,
  }))
}

function prototypeOf({ instance, isNotMetatype, metatype }: Wrapper): object | undefined {
  const isClass = !isNotMetatype && typeof metatype === 'function'
  const prototype: unknown = isClass
    ? metatype.prototype
    : typeof instance === 'object' && instance !== null && Object.getPrototypeOf(instance)
  return typeof prototype === 'object' && prototype !== null ? prototype : undefined
}

/** @throws {@link ConfigurationError} for handlers in controllers, whose guards Nest would not find. */
export function findHandlers(nest: NestParts): readonly FoundHandler[] {
  const markedIn = (wrapper: Wrapper): readonly FoundHandler[] =>
    methodsOf(nest, wrapper).flatMap(({ key, method }) =>
      marksOf(method).map((mark) => ({ mark, wrapper, key })),
    )
  const [refused] = nest.discovery.getControllers().flatMap(markedIn)
  if (refused !== undefined) {
    throw new ConfigurationError(
      `${shownHandler(refused)} has ${refused.mark.broker === undefined ? '@OnceAt' : '@Consume'}, but its class is a controller: move it to a provider.`,
    )
  }
  return nest.discovery
    .getProviders()
    .filter(({ isAlias }) => !isAlias)
    .flatMap(markedIn)
}

export const shownHandler = ({ key, wrapper }: Omit<FoundHandler, 'mark'>): string =>
  `${nameOf(wrapper.isNotMetatype ? wrapper.instance?.constructor : wrapper.metatype)}.${key}`

/** `createParamDecorator` of every version of Nest stores under it. */
const PARAMETERS = '__routeArguments__'
/** Of Nest's own decorators for requests, such as `@Body()`: a message has none of that. */
const NO_REQUEST = { exchangeKeyForValue: () => undefined }
const ENHANCERS = { guards: true, interceptors: true, filters: false }

type Call = (...given: readonly unknown[]) => Promise<unknown>

/** Makes the function that runs a handler with the guards, pipes and interceptors of Nest. */
export function handlerCall(
  { external, moduleRef }: NestParts,
  { key, wrapper }: FoundHandler,
): (input: unknown, context: OncewardContext) => Promise<unknown> {
  const create = (instance: object, ...scope: readonly unknown[]): Call => {
    const method = writtenMethod(Reflect.get(instance, key)) as never
    const [contextId, inquirerId] = scope as [never?, string?]
    return external.create(
      ...([instance as never, method, key, PARAMETERS, NO_REQUEST, contextId, inquirerId] as const),
      ...([ENHANCERS, CONTEXT_TYPE] as const),
    ) as Call
  }
  let call: Call | undefined
  return async (input, context) => {
    if (wrapper.isDependencyTreeStatic()) {
      call ??= create(wrapper.instance)
      return call(input, context)
    }
    const contextId = ContextIdFactory.getByRequest(context)
    moduleRef.registerRequestByContextId(context, contextId)
    const token = wrapper.token as Type<object>
    const instance = await moduleRef.resolve(token, contextId, { strict: false })
    return create(instance, contextId, wrapper.id)(input, context)
  }
}
