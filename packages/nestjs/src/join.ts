import { AsyncLocalStorage } from 'node:async_hooks'
import { ConfigurationError } from '@onceward/core'
import { loadFor } from './package-loader.ts'

/** Lets what a library keeps as its current transaction be the transaction of the handler. */
export interface Join {
  /** Called once, before the first handler runs. */
  prepare?(): Promise<void>
  /** Runs a handler. What it calls finds `tx`. */
  run(tx: unknown, handler: () => Promise<unknown>): Promise<unknown>
}

/** Runs a handler inside all of them, the first one outermost. Without a transaction there is nothing to join. */
export function runJoined(
  joins: readonly Join[],
  context: { readonly tx: unknown },
  handler: () => Promise<unknown>,
): Promise<unknown> {
  // The guard warns of handlers that never read it.
  const tx = joins.length === 0 ? undefined : context.tx
  if (tx === undefined) return handler()
  const inside = (next: () => Promise<unknown>, join: Join) => () => join.run(tx, next)
  return joins.toReversed().reduce(inside, handler)()
}

/** A transaction on its way to the next call that opens one. */
interface Handover {
  readonly tx: unknown
  isTaken: boolean
}

/** Follows the handler. Without a handler it is empty, and every call opens its own transaction. */
const handovers = new AsyncLocalStorage<Handover>()

const handOver = async (
  tx: unknown,
  refusal: string,
  open: (handler: () => Promise<unknown>) => Promise<unknown>,
  handler: () => Promise<unknown>,
): Promise<unknown> => {
  const handover: Handover = { tx, isTaken: false }
  return handovers.run(handover, () =>
    open(() => {
      // Another transaction than the event's was opened: its commit would not be that of the event.
      if (!handover.isTaken) throw new ConfigurationError(refusal)
      return handler()
    }),
  )
}

const taken = (): Handover | undefined => {
  const handover = handovers.getStore()
  if (handover === undefined || handover.isTaken) return undefined
  handover.isTaken = true
  return handover
}

/** What is used of the options that an adapter of `@nestjs-cls/transactional` makes. */
interface AdapterOptions {
  wrapWithTransaction(
    options: never,
    work: () => Promise<unknown>,
    // biome-ignore lint/suspicious/noExplicitAny: as nestjs-cls types it
    setTx: (tx?: any) => void,
  ): Promise<unknown>
}

const HOOKS: ReadonlySet<string | symbol> = new Set([
  ...['onModuleInit', 'onModuleDestroy', 'onApplicationBootstrap'],
  ...['beforeApplicationShutdown', 'onApplicationShutdown'],
])

/** What is used of a `TransactionalAdapter` of `@nestjs-cls/transactional`. */
export interface ClsAdapter {
  // biome-ignore lint/suspicious/noExplicitAny: as nestjs-cls types them
  optionsFactory(connection: any, extraProviders: any[]): AdapterOptions
}

/**
 * Lets an adapter of `@nestjs-cls/transactional` take the transaction of a handler. With {@link joinCls},
 * `TransactionHost.tx` and `@Transactional()` are then in the transaction of the event, and `Propagation.Nested` is a
 * savepoint in it. `Propagation.RequiresNew` opens a transaction of its own, whose effects stay when the event runs again.
 *
 * @param adapter - Its transactions must be those of the inbox: TypeORM with `typeormInbox`, Prisma with `prismaInbox`.
 *
 * @example
 * ```ts
 * import { ClsPluginTransactional } from '@nestjs-cls/transactional'
 * import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
 * import { joined } from '@onceward/nestjs'
 * import { DataSource } from 'typeorm'
 *
 * new ClsPluginTransactional({
 *   adapter: joined(new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource })),
 * })
 * ```
 */
export function joined<Adapter extends ClsAdapter>(adapter: Adapter): Adapter {
  const optionsFactory: ClsAdapter['optionsFactory'] = (connection, extraProviders) => {
    const options = adapter.optionsFactory(connection, extraProviders)
    const wrapWithTransaction: AdapterOptions['wrapWithTransaction'] = async (
      given,
      work,
      setTx,
    ) => {
      const handover = taken()
      if (handover === undefined) return options.wrapWithTransaction(given, work, setTx)
      setTx(handover.tx)
      return work()
    }
    return { ...options, wrapWithTransaction }
  }
  return new Proxy(adapter, {
    get: (target, name) => {
      if (name === 'optionsFactory') return optionsFactory
      const value: unknown = Reflect.get(target, name)
      // Hooks may use private fields, which a proxy does not have. The token may be a class, which is not called.
      return HOOKS.has(name) && typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** What is used of `@nestjs-cls/transactional`. */
interface ClsTransactional {
  readonly TransactionHost: {
    getInstance(name?: string): {
      withTransaction(
        propagation: string,
        options: object,
        work: () => Promise<unknown>,
      ): Promise<unknown>
    }
  }
  readonly Propagation: { readonly RequiresNew: string }
}

/**
 * Runs handlers within the transaction that `@nestjs-cls/transactional` keeps: injected repositories that use its
 * `TransactionHost`, and methods with `@Transactional()`, write in the transaction of the event. For `join` of the module.
 * The plugin's adapter must be {@link joined}.
 *
 * @param connectionName - Of the plugin. Default: that of a plugin without one.
 */
export function joinCls(connectionName?: string): Join {
  let cls: ClsTransactional | undefined
  const load = async (): Promise<ClsTransactional> =>
    (await import('@nestjs-cls/transactional')) as unknown as ClsTransactional
  const prepare = async (): Promise<void> => {
    cls = await loadFor('joinCls', '@nestjs-cls/transactional', load)
  }
  const refusal =
    'joinCls found another transaction than that of the event: wrap the adapter of ClsPluginTransactional in joined(…).'
  return {
    prepare,
    run: async (tx, handler) => {
      if (cls === undefined) await prepare()
      const { Propagation, TransactionHost } = cls as ClsTransactional
      const host = TransactionHost.getInstance(connectionName)
      // New, because a caller of `deliver()` may have one of its own.
      const open = (work: () => Promise<unknown>) =>
        host.withTransaction(Propagation.RequiresNew, {}, work)
      return handOver(tx, refusal, open, handler)
    },
  }
}

/** What is used of `typeorm-transactional` and its data sources. */
interface TypeormTransactional {
  runInTransaction(
    work: () => Promise<unknown>,
    options: { readonly connectionName: string; readonly propagation: unknown },
  ): Promise<unknown>
  getDataSourceByName(name: string): TransactionalDataSource | undefined
  readonly Propagation: { readonly REQUIRES_NEW: unknown }
}

interface TransactionalDataSource {
  transaction(...given: unknown[]): Promise<unknown>
}

/**
 * Runs handlers within the transaction that `typeorm-transactional` keeps: injected repositories, and methods with its
 * `@Transactional()`, write in the transaction of the event. For `join` of the module. Its `NESTED` and `REQUIRES_NEW` open
 * transactions of their own, whose effects stay when the event runs again.
 *
 * @param name - Of the data source, as `addTransactionalDataSource` has got it. Default: `default`.
 */
export function joinTypeormTransactional(name = 'default'): Join {
  let library: TypeormTransactional | undefined
  const load = async (): Promise<TypeormTransactional> =>
    (await import('typeorm-transactional')) as unknown as TypeormTransactional
  const prepare = async (): Promise<void> => {
    library = await loadFor('joinTypeormTransactional', 'typeorm-transactional', load)
  }
  const refusal = `joinTypeormTransactional could not hand the transaction of the event to the data source \`${name}\` of typeorm-transactional. Expected version 0.5.`
  return {
    prepare,
    run: async (tx, handler) => {
      if (library === undefined) await prepare()
      const { getDataSourceByName, Propagation, runInTransaction } = library as TypeormTransactional
      const dataSource = getDataSourceByName(name)
      if (dataSource === undefined) {
        throw new ConfigurationError(
          `joinTypeormTransactional knows no data source \`${name}\`: call addTransactionalDataSource(dataSource) before the application starts.`,
        )
      }
      handingOver(dataSource)
      const options = { connectionName: name, propagation: Propagation.REQUIRES_NEW }
      const open = (work: () => Promise<unknown>) => runInTransaction(work, options)
      return handOver(tx, refusal, open, handler)
    },
  }
}

const HANDING_OVER = Symbol.for('onceward.handing-over')

/** Lets the next call of `transaction` by a handler that hands over its own use that. All others are unchanged. */
function handingOver(dataSource: TransactionalDataSource): void {
  if (Reflect.get(dataSource.transaction, HANDING_OVER) === true) return
  const original = dataSource.transaction
  const transaction = async (...given: unknown[]): Promise<unknown> => {
    const handover = taken()
    if (handover === undefined) return Reflect.apply(original, dataSource, given)
    return (given.at(-1) as (tx: unknown) => unknown)(handover.tx)
  }
  dataSource.transaction = Object.assign(transaction, { [HANDING_OVER]: true })
}
