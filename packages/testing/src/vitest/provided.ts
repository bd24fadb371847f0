declare module 'vitest' {
  interface ProvidedContext {
    /** The shared Postgres of `global-setup.ts`. */
    readonly postgresUrl: string
  }
}

export {}
