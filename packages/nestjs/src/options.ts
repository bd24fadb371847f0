import type { DynamicModule, FactoryProvider } from '@nestjs/common'
import type {
  ApproximateDedup,
  CommonOptions,
  Inbox,
  InboxGuardOptions,
  LeaseGuardOptions,
  LeaseStore,
  Logger,
} from '@onceward/core'
import { type KnownNames, refuseUnknownNames } from '@onceward/core/adapter'
import { OPTION_DOCS } from '@onceward/core/ports'
import type { RelayOptions } from '@onceward/postgres/outbox'
import type { Broker } from './brokers.ts'
import type { Join } from './join.ts'

/** The options of a guard as a decorator takes them: those of `createGuard`. */
export interface HandlerOptions<Payload, Decoded = unknown>
  extends CommonOptions<Payload, Decoded> {
  /** Default: that of the module, unless `dedup` or `onTakeover` says that effects are elsewhere. */
  readonly inbox?: Inbox<unknown> | undefined
  readonly leases?: LeaseStore | undefined
  readonly dedup?: ApproximateDedup | undefined
  readonly transaction?: InboxGuardOptions<Payload, unknown>['transaction']
  readonly onTakeover?: LeaseGuardOptions<Payload, Decoded>['onTakeover'] | undefined
  readonly onStoreDown?: LeaseGuardOptions<Payload, Decoded>['onStoreDown']
}

/** As {@link HandlerOptions}, for handlers that get the events of a transaction together. */
export type BatchOptions<Payload, Decoded = unknown> = Omit<
  HandlerOptions<Payload, Decoded>,
  'transaction' | 'dedup' | 'onTakeover' | 'onStoreDown'
>

/** Options of `OncewardModule.forRoot`. */
export interface OncewardModuleOptions {
  /** Of all consumers that name none of their own: `typeormInbox(dataSource, …)` and its siblings. */
  readonly inbox?: Inbox<unknown> | undefined
  /** By the names that `@Consume` uses. Default: none, for applications with an `OncewardStrategy` alone. */
  readonly brokers?: Readonly<Record<string, Broker>> | undefined
  /**
   * Publishes what handlers have sent, for as long as the application runs. The options of `startRelay` of
   * `@onceward/postgres/outbox`, which reads the tables of `inbox` unless they name others. Default: another process does it.
   */
  readonly relay?: Omit<RelayOptions, 'signal'> | undefined
  /**
   * Lets injected repositories and services write in the transaction of the handler: `joinCls()`,
   * `joinTypeormTransactional()`. Default: they write outside of it, and only `tx` writes in it.
   */
  readonly join?: readonly Join[] | undefined
  /** `false`: this process takes no messages and runs no ticks, as a web server made of the same image. Default: true. */
  readonly consume?: boolean | undefined
  /** A pino instance or `console`, for all consumers. Default: that of guards. */
  readonly logger?: Logger | undefined
}

/** Options of `OncewardModule.forRootAsync`. */
export interface OncewardModuleAsyncOptions
  extends Pick<DynamicModule, 'imports'>,
    Pick<FactoryProvider, 'inject'> {
  readonly useFactory: (
    // biome-ignore lint/suspicious/noExplicitAny: as Nest types the arguments of factories
    ...injected: any[]
  ) => OncewardModuleOptions | Promise<OncewardModuleOptions>
}

const NAMES: KnownNames<OncewardModuleOptions> = {
  ...{ inbox: true, brokers: true, relay: true, join: true, consume: true, logger: true },
}

/** @throws {@link ConfigurationError} */
export function checkModuleOptions(options: OncewardModuleOptions): void {
  refuseUnknownNames('OncewardModule', options, NAMES)
}

const GUARD_NAMES = new Set(OPTION_DOCS.map(({ name }) => name.split('.')[0]))

export interface Split {
  readonly guard: Readonly<Record<string, unknown>>
  readonly place: Readonly<Record<string, unknown>>
}

/** Options of a guard, and those of its broker: whatever no guard knows. The adapter refuses what it does not know. */
export function splitOptions(options: object): Split {
  const entries = Object.entries(options)
  const isGuards = ([name]: [string, unknown]): boolean => GUARD_NAMES.has(name)
  return {
    guard: Object.fromEntries(entries.filter(isGuards)),
    place: Object.fromEntries(entries.filter((entry) => !isGuards(entry))),
  }
}

/** The class of a provider, as it is shown. */
export const nameOf = (metatype: { readonly name: string } | null | undefined): string =>
  metatype?.name ?? 'a provider'
