// Compiles a Kaitai definition (as JSON): KAITAI_HOME=FOLDER node compile.cjs definition.json folder language...
// Each language gets a folder of its own. KAITAI_HOME is a folder in whose node_modules the compiler is.
const fs = require("fs");
const path = require("path");
const compiler = require("module").createRequire(process.env.KAITAI_HOME + "/")("kaitai-struct-compiler");

const [definition, folder, ...languages] = process.argv.slice(2);
const parsed = JSON.parse(fs.readFileSync(definition));

(async () => {
  for (const language of languages) {
    fs.mkdirSync(path.join(folder, language), { recursive: true });
    for (const [name, text] of Object.entries(await compiler.compile(language, parsed, null, false)))
      fs.writeFileSync(path.join(folder, language, path.basename(name)), text);
  }
})();
