import { type DynamicModule, Module } from '@nestjs/common'
import {
  DiscoveryModule,
  DiscoveryService,
  ExternalContextCreator,
  MetadataScanner,
  ModuleRef,
  ModulesContainer,
} from '@nestjs/core'
import { OncewardConsumers } from './consumers.ts'
import { OncewardHealth } from './health.ts'
import {
  checkModuleOptions,
  type OncewardModuleAsyncOptions,
  type OncewardModuleOptions,
} from './options.ts'

const OPTIONS = Symbol('options of OncewardModule')
/** What tests put in the place of options. */
export const OVERRIDES: unique symbol = Symbol('overrides of OncewardModule')

const NEST = [
  DiscoveryService,
  MetadataScanner,
  ExternalContextCreator,
  ModuleRef,
  ModulesContainer,
]

/**
 * Runs methods with `@Consume` as exactly-once consumers, for as long as the application runs. Not global: import it once,
 * **after** the module of the database, and not as the first. Nest ends modules in reverse order of their imports, so
 * running handlers still have their database when consumers drain.
 *
 * @example
 * ```ts
 * import { Module } from '@nestjs/common'
 * import { OncewardModule, sqsBroker } from '@onceward/nestjs'
 *
 * @Module({ imports: [OncewardModule.forRoot({ inbox, brokers: { sqs: sqsBroker(sqs) } })] })
 * class AppModule {}
 * ```
 */
// biome-ignore lint/complexity/noStaticOnlyClass: the modules of Nest are classes
export class OncewardModule {
  /** @throws {@link ConfigurationError} */
  static forRoot(options: OncewardModuleOptions): DynamicModule {
    checkModuleOptions(options)
    return OncewardModule.forRootAsync({ useFactory: () => options })
  }

  /** The options from a factory, which may get providers of `imports`: `useFactory: (dataSource: DataSource) => ({ … })`. */
  static forRootAsync({
    imports = [],
    inject = [],
    useFactory,
  }: OncewardModuleAsyncOptions): DynamicModule {
    return {
      module: OncewardModule,
      imports: [DiscoveryModule, ...imports],
      providers: [
        { provide: OPTIONS, inject, useFactory },
        { provide: OVERRIDES, useValue: {} },
        {
          provide: OncewardConsumers,
          inject: [OPTIONS, OVERRIDES, ...NEST],
          useFactory: createConsumers,
        },
        {
          provide: OncewardHealth,
          inject: [OncewardConsumers],
          useFactory: (consumers: OncewardConsumers) => new OncewardHealth(consumers),
        },
      ],
      exports: [OncewardConsumers, OncewardHealth],
    }
  }
}

Module({})(OncewardModule)

function createConsumers(
  given: OncewardModuleOptions,
  overrides: Partial<OncewardModuleOptions>,
  ...[discovery, scanner, external, moduleRef, modules]: [
    DiscoveryService,
    MetadataScanner,
    ExternalContextCreator,
    ModuleRef,
    ModulesContainer,
  ]
): OncewardConsumers {
  checkModuleOptions(given)
  const options = { ...given, ...overrides }
  return new OncewardConsumers({
    ...{ options, modules, nest: { discovery, scanner, external, moduleRef } },
  })
}
