import { build } from 'esbuild'

await build({
  entryPoints: ['src/function.ts'],
  outfile: 'dist/function.mjs',
  bundle: true,
  platform: 'node',
  target: 'node22',
  format: 'esm',
  sourcemap: true,
  // pg is CommonJS and calls require('events'). An ES module has no require, and esbuild's stand-in throws
  // "Dynamic require of "events" is not supported": this makes a real one.
  banner: {
    js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
  },
  // A pool without native code needs no pg-native.
  external: ['pg-native'],
})
