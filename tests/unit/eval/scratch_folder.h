#pragma once

#include <string>

/// A folder that lives as long as the object.
class ScratchFolder {
  public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    const std::string& path() const { return path_; }
    /// Writes a file below the folder, with its parent folders; returns its path.
    std::string write(const std::string& name, const std::string& text) const;
    /// Writes an executable shell script.
    std::string write_script(const std::string& name, const std::string& body) const;

  private:
    std::string path_;
};
